-- name: abandoned_leases
SELECT queue, count(*) FROM brant._honker_live
WHERE state = 'processing' AND claim_expires_at < :before GROUP BY queue ORDER BY queue

-- name: overdue_schedules
SELECT task.name {{schedule_from}}
WHERE task.enabled = 1 AND task.next_fire_at < :before AND extra.error IS NULL ORDER BY task.name

-- name: schedules_without_consumers
SELECT task.name, task.queue, waiting.count
FROM brant._honker_scheduler_tasks AS task
CROSS JOIN LATERAL (
    SELECT count(*) AS count FROM brant._honker_live WHERE queue = task.queue AND state = 'pending'
) AS waiting
WHERE task.enabled = 1 AND waiting.count > :most
ORDER BY task.name

-- The statements that rewrite each table of Brant's.
-- name: compactions
SELECT format('VACUUM (FULL, ANALYZE) %I.%I', schemaname, tablename) FROM pg_tables
WHERE schemaname = :schema ORDER BY tablename

-- name: schema_bytes
SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class
WHERE relnamespace = to_regnamespace(quote_ident(:schema)) AND relkind = 'r'

-- name: parked_schedules
SELECT name FROM brant._brant_schedules WHERE error IS NOT NULL ORDER BY name

-- Transactions that keep the server from removing dead rows: by an old snapshot or by being left open.
-- name: old_transactions
SELECT pid, coalesce(application_name, ''), coalesce(usename, ''), state,
    CAST(extract(epoch FROM clock_timestamp() - xact_start) AS double precision)
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
    AND xact_start < clock_timestamp() - make_interval(secs => :seconds)
    AND (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL)
ORDER BY xact_start

-- name: old_prepared_transactions
SELECT gid, CAST(owner AS text), CAST(extract(epoch FROM clock_timestamp() - prepared) AS double precision)
FROM pg_prepared_xacts
WHERE database = current_database() AND prepared < clock_timestamp() - make_interval(secs => :seconds)
ORDER BY prepared

-- name: dead_rows
SELECT n_live_tup, n_dead_tup FROM pg_stat_user_tables WHERE relid = to_regclass('brant._honker_live')

-- Dead rows among the jobs, and how many transactions have begun since the oldest that may keep them.
-- name: kept_dead_rows
SELECT
    coalesce((SELECT n_dead_tup FROM pg_stat_user_tables WHERE relid = to_regclass('brant._honker_live')), 0),
    coalesce((
        SELECT max(greatest(age(backend_xid), age(backend_xmin))) FROM pg_stat_activity
        WHERE (datname = current_database() OR datname IS NULL) AND pid <> pg_backend_pid()
            AND backend_type <> 'autovacuum worker'
    ), 0)

-- name: connections
SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
    CAST(current_setting('max_connections') AS integer)

-- name: server_version
SELECT current_setting('server_version')
