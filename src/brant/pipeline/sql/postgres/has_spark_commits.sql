SELECT to_regclass('brant._brant_spark_commits') IS NOT NULL AS found
