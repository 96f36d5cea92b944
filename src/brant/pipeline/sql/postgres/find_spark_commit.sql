SELECT batch, plan FROM brant._brant_spark_commits WHERE app = ? AND batch >= 0 FOR UPDATE
