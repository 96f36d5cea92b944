SELECT batch, plan FROM _brant_spark_commits WHERE app = ?
