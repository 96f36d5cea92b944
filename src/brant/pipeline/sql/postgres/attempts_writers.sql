SELECT virtualtransaction FROM pg_locks
WHERE locktype = 'relation' AND mode = 'RowExclusiveLock'
    AND relation = CAST(CAST('brant.knocker_attempts' AS regclass) AS oid)
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
