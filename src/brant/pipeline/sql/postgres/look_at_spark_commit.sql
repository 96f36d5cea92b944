SELECT batch, plan FROM brant._brant_spark_commits WHERE app = ?
