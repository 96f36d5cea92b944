-- A dump reads whole tables in the order of their keys, so that equal databases give equal dumps.

-- name: row_counts
SELECT CAST('queues' AS text), count(*) FROM brant._brant_queues
UNION ALL SELECT 'aliases', count(*) FROM brant._brant_aliases
UNION ALL SELECT 'live', count(*) FROM brant._honker_live
UNION ALL SELECT 'dead', count(*) FROM brant._honker_dead
UNION ALL SELECT 'attempts', count(*) FROM brant._brant_attempts
UNION ALL SELECT 'unique', count(*) FROM brant._brant_unique
UNION ALL SELECT 'limits', count(*) FROM brant._brant_limits
UNION ALL SELECT 'limited', count(*) FROM brant._brant_limited
UNION ALL SELECT 'starts', count(*) FROM brant._brant_starts
UNION ALL SELECT 'batches', count(*) FROM brant._brant_batches
UNION ALL SELECT 'batch_jobs', count(*) FROM brant._brant_batch_jobs
UNION ALL SELECT 'results', count(*) FROM brant._honker_results
UNION ALL SELECT 'stream', count(*) FROM brant._honker_stream
UNION ALL SELECT 'stream_consumers', count(*) FROM brant._honker_stream_consumers
UNION ALL SELECT 'notifications', count(*) FROM brant._honker_notifications
UNION ALL SELECT 'scheduler_tasks', count(*) FROM brant._honker_scheduler_tasks
UNION ALL SELECT 'schedules', count(*) FROM brant._brant_schedules
UNION ALL SELECT 'locks', count(*) FROM brant._honker_locks
UNION ALL SELECT 'rate_limits', count(*) FROM brant._honker_rate_limits

-- Sequences are no part of a snapshot: what comes is at least the highest id of the rows that it shows.
-- name: last_ids
SELECT known.name, pg_sequence_last_value(known.ids)
FROM (VALUES
    (CAST('live' AS text), CAST('brant._brant_job_ids' AS regclass)),
    ('notifications', CAST('brant._brant_notification_ids' AS regclass)),
    ('stream', CAST('brant._brant_stream_offsets' AS regclass))
) AS known (name, ids)
WHERE pg_sequence_last_value(known.ids) IS NOT NULL ORDER BY known.name

-- name: raise_last_id
SELECT brant._brant_raise_ids(
    CASE CAST(:prefix AS text) || CAST(:table AS text)
        WHEN '_honker_live' THEN CAST('brant._brant_job_ids' AS regclass)
        WHEN '_honker_notifications' THEN CAST('brant._brant_notification_ids' AS regclass)
        WHEN '_honker_stream' THEN CAST('brant._brant_stream_offsets' AS regclass)
        ELSE CAST(pg_get_serial_sequence(CAST(coalesce(
            to_regclass({{own_schema}} || quote_ident(CAST(:prefix AS text) || CAST(:table AS text))),
            to_regclass(quote_ident(CAST(:prefix AS text) || CAST(:table AS text)))
        ) AS text), 'id') AS regclass)
    END, :last_id
)

-- Those of the named tables that are there, each with the statements that count, read and fill it. The storage does not
-- know these tables, so their columns are looked up.
-- name: further_tables
SELECT
    named.name,
    CAST((SELECT json_agg(attname ORDER BY attnum) FROM {{its_columns}}) AS text),
    (
        SELECT pg_sequence_last_value(CAST(pg_get_serial_sequence(named.quoted, attname) AS regclass)) FROM {{its_columns}}
        WHERE pg_get_serial_sequence(named.quoted, attname) IS NOT NULL LIMIT 1
    ),
    format('SELECT count(*) FROM %s', named.quoted),
    format(
        'SELECT %s FROM %s ORDER BY %s', (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM {{its_columns}}),
        named.quoted, coalesce((
            SELECT string_agg(quote_ident(attname), ', ' ORDER BY array_position(CAST(indkey AS smallint[]), attnum))
            FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
            WHERE indrelid = named.found AND indisprimary
        ), 'ctid')
    ),
    format(
        'INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE VALUES (%s)', named.quoted,
        (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM {{its_columns}}),
        (SELECT string_agg('?', ', ') FROM {{its_columns}})
    )
FROM (
    SELECT value AS name, CAST(found AS text) AS quoted, found
    FROM json_array_elements_text(CAST(:names AS json)),
        LATERAL (SELECT coalesce(to_regclass({{own_schema}} || quote_ident(value)), to_regclass(quote_ident(value))) AS found)
            AS looked_up
) AS named
WHERE named.found IS NOT NULL
ORDER BY named.name

-- The tables in Brant's own schema count, whatever others of their names the user has.
-- fragment: own_schema
(
    SELECT CAST(CAST(relnamespace AS regnamespace) AS text) || '.' FROM pg_class
    WHERE oid = CAST('brant._brant_meta' AS regclass)
)

-- fragment: its_columns
(
    SELECT attname, attnum FROM pg_attribute WHERE attrelid = named.found AND attnum > 0 AND NOT attisdropped
) AS its

-- name: migration_note
SELECT value FROM brant._brant_meta WHERE key = 'migration'

-- name: save_migration_note
INSERT INTO brant._brant_meta (key, value) VALUES ('migration', :note)
ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- name: forget_migration_note
DELETE FROM brant._brant_meta WHERE key = 'migration'

-- Rows may come before those that they refer to, where the reference is deferrable; the commit checks them all.
-- name: defer_references
SET CONSTRAINTS ALL DEFERRED

-- name: dump_queues
SELECT name, paused, events FROM brant._brant_queues ORDER BY name

-- name: load_queues
INSERT INTO brant._brant_queues (name, paused, events)
VALUES (:name, :paused, :events)

-- name: dump_aliases
SELECT alias, target FROM brant._brant_aliases ORDER BY alias

-- name: load_aliases
INSERT INTO brant._brant_aliases (alias, target)
VALUES (:alias, :target)

-- name: dump_live
SELECT
    id, queue, payload, state, priority, run_at, worker_id, claim_expires_at, attempts, max_attempts,
    created_at, expires_at
FROM brant._honker_live ORDER BY id

-- name: load_live
INSERT INTO brant._honker_live (
    id, queue, payload, state, priority, run_at, worker_id, claim_expires_at, attempts, max_attempts,
    created_at, expires_at
)
VALUES (
    :id, :queue, :payload, :state, :priority, :run_at, :worker_id,
    :claim_expires_at, :attempts, :max_attempts, :created_at, :expires_at
)

-- name: dump_dead
SELECT id, queue, payload, priority, run_at, attempts, max_attempts, last_error, created_at, died_at
FROM brant._honker_dead ORDER BY id

-- name: load_dead
INSERT INTO brant._honker_dead (id, queue, payload, priority, run_at, attempts, max_attempts, last_error, created_at, died_at)
VALUES (
    :id, :queue, :payload, :priority, :run_at, :attempts, :max_attempts,
    :last_error, :created_at, :died_at
)

-- name: dump_attempts
SELECT job_id, attempt, worker_id, error, failed_at FROM brant._brant_attempts ORDER BY number

-- name: load_attempts
INSERT INTO brant._brant_attempts (job_id, attempt, worker_id, error, failed_at)
VALUES (:job_id, :attempt, :worker_id, :error, :failed_at)

-- name: dump_unique
SELECT queue, key, job_id, expires_at FROM brant._brant_unique ORDER BY queue, key

-- name: load_unique
INSERT INTO brant._brant_unique (queue, key, job_id, expires_at)
VALUES (:queue, :key, :job_id, :expires_at)

-- name: dump_batches
SELECT
    id, note, then_queue, then_payload, then_path, then_priority, then_max_attempts, then_expires_s,
    then_job_id, total, succeeded, dead, cancelled, sealed, settled, created_at, settled_at, keep_s
FROM brant._brant_batches ORDER BY id

-- name: load_batches
INSERT INTO brant._brant_batches (
    id, note, then_queue, then_payload, then_path, then_priority, then_max_attempts, then_expires_s,
    then_job_id, total, succeeded, dead, cancelled, sealed, settled, created_at, settled_at, keep_s
)
VALUES (
    :id, :note, :then_queue, :then_payload, :then_path, :then_priority, :then_max_attempts, :then_expires_s,
    :then_job_id, :total, :succeeded, :dead, :cancelled, :sealed, :settled, :created_at, :settled_at, :keep_s
)

-- name: dump_batch_jobs
SELECT job_id, batch_id, state FROM brant._brant_batch_jobs ORDER BY job_id

-- name: load_batch_jobs
INSERT INTO brant._brant_batch_jobs (job_id, batch_id, state) VALUES (:job_id, :batch_id, :state)

-- A key that a job has left is to be woken, and one without jobs to be forgotten, as if a claim had been there already.
-- name: dump_limits
SELECT
    queue, key, max_running, max_starts, per_s,
    CASE WHEN EXISTS (
        SELECT 1 FROM brant._brant_left_keys AS gone WHERE gone.queue = limits.queue AND gone.key = limits.key
    ) THEN 0 ELSE wake_at END,
    CASE WHEN key = '' OR forget_at IS NOT NULL OR EXISTS (
        SELECT 1 FROM brant._brant_limited AS limited WHERE limited.queue = limits.queue AND limited.key = limits.key
    ) THEN forget_at ELSE coalesce(per_s, 0) + coalesce((
        SELECT max(started_at) FROM brant._brant_starts AS starts
        WHERE starts.queue = limits.queue AND starts.key = limits.key
    ), 0) END
FROM brant._brant_limits AS limits ORDER BY queue, key

-- name: load_limits
INSERT INTO brant._brant_limits (queue, key, max_running, max_starts, per_s, wake_at, forget_at)
VALUES (:queue, :key, :max_running, :max_starts, :per_s, :wake_at, :forget_at)

-- name: dump_limited
SELECT job_id, queue, key, running, priority, run_at FROM brant._brant_limited ORDER BY job_id

-- name: load_limited
INSERT INTO brant._brant_limited (job_id, queue, key, running, priority, run_at)
VALUES (:job_id, :queue, :key, :running, :priority, :run_at)

-- name: dump_starts
SELECT queue, key, number, started_at FROM brant._brant_starts ORDER BY queue, key, number

-- name: load_starts
INSERT INTO brant._brant_starts (queue, key, number, started_at)
VALUES (:queue, :key, :number, :started_at)

-- name: dump_results
SELECT job_id, value, created_at, expires_at FROM brant._honker_results ORDER BY job_id

-- name: load_results
INSERT INTO brant._honker_results (job_id, value, created_at, expires_at)
VALUES (:job_id, :value, :created_at, :expires_at)

-- name: dump_stream
SELECT "offset", topic, key, payload, created_at FROM brant._honker_stream ORDER BY "offset"

-- name: load_stream
INSERT INTO brant._honker_stream ("offset", topic, key, payload, created_at)
VALUES (:offset, :topic, :key, :payload, :created_at)

-- name: dump_stream_consumers
SELECT name, topic, "offset" FROM brant._honker_stream_consumers ORDER BY name, topic

-- name: load_stream_consumers
INSERT INTO brant._honker_stream_consumers (name, topic, "offset")
VALUES (:name, :topic, :offset)

-- name: dump_notifications
SELECT id, channel, payload, created_at FROM brant._honker_notifications ORDER BY id

-- name: load_notifications
INSERT INTO brant._honker_notifications (id, channel, payload, created_at)
VALUES (:id, :channel, :payload, :created_at)

-- name: dump_scheduler_tasks
SELECT name, queue, cron_expr, payload, priority, expires_s, next_fire_at, enabled, max_attempts
FROM brant._honker_scheduler_tasks ORDER BY name

-- name: load_scheduler_tasks
INSERT INTO brant._honker_scheduler_tasks (
    name, queue, cron_expr, payload, priority, expires_s, next_fire_at, enabled, max_attempts
)
VALUES (
    :name, :queue, :cron_expr, :payload, :priority, :expires_s,
    :next_fire_at, :enabled, :max_attempts
)

-- name: dump_schedules
SELECT name, tz, missed, last_fire_at, error FROM brant._brant_schedules ORDER BY name

-- name: load_schedules
INSERT INTO brant._brant_schedules (name, tz, missed, last_fire_at, error)
VALUES (:name, :tz, :missed, :last_fire_at, :error)

-- name: dump_locks
SELECT name, owner, expires_at FROM brant._honker_locks ORDER BY name

-- name: load_locks
INSERT INTO brant._honker_locks (name, owner, expires_at)
VALUES (:name, :owner, :expires_at)

-- name: dump_rate_limits
SELECT name, window_start, count FROM brant._honker_rate_limits ORDER BY name, window_start

-- name: load_rate_limits
INSERT INTO brant._honker_rate_limits (name, window_start, count)
VALUES (:name, :window_start, :count)
