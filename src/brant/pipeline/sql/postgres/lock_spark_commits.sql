SELECT count(pg_advisory_xact_lock(hashtextextended('_brant_spark_commits', CAST(oid AS bigint)))) AS locked
FROM pg_class WHERE oid = CAST('brant._brant_meta' AS regclass)
