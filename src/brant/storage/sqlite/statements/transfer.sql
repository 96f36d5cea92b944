-- A dump reads whole tables in the order of their keys, so that equal databases give equal dumps.

-- name: row_counts
SELECT 'queues', count(*) FROM _brant_queues
UNION ALL SELECT 'aliases', count(*) FROM _brant_aliases
UNION ALL SELECT 'live', count(*) FROM _honker_live
UNION ALL SELECT 'dead', count(*) FROM _honker_dead
UNION ALL SELECT 'attempts', count(*) FROM _brant_attempts
UNION ALL SELECT 'unique', count(*) FROM _brant_unique
UNION ALL SELECT 'limits', count(*) FROM _brant_limits
UNION ALL SELECT 'limited', count(*) FROM _brant_limited
UNION ALL SELECT 'starts', count(*) FROM _brant_starts
UNION ALL SELECT 'batches', count(*) FROM _brant_batches
UNION ALL SELECT 'batch_jobs', count(*) FROM _brant_batch_jobs
UNION ALL SELECT 'results', count(*) FROM _honker_results
UNION ALL SELECT 'stream', count(*) FROM _honker_stream
UNION ALL SELECT 'stream_consumers', count(*) FROM _honker_stream_consumers
UNION ALL SELECT 'notifications', count(*) FROM _honker_notifications
UNION ALL SELECT 'scheduler_tasks', count(*) FROM _honker_scheduler_tasks
UNION ALL SELECT 'schedules', count(*) FROM _brant_schedules
UNION ALL SELECT 'locks', count(*) FROM _honker_locks
UNION ALL SELECT 'rate_limits', count(*) FROM _honker_rate_limits

-- name: last_ids
SELECT substr(name, length('_honker_') + 1), seq FROM sqlite_sequence
WHERE name IN ('_honker_live', '_honker_notifications', '_honker_stream') ORDER BY name

-- name: forget_lower_last_id
DELETE FROM sqlite_sequence WHERE name = :prefix || :table AND seq < :last_id

-- name: add_last_id
INSERT INTO sqlite_sequence (name, seq)
SELECT :prefix || :table, :last_id
WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = :prefix || :table)

-- Those of the named tables that are there, each with the statements that count, read and fill it. The storage does not
-- know these tables, so their columns are looked up.
-- name: further_tables
SELECT
    name,
    columns,
    (SELECT seq FROM sqlite_sequence AS s WHERE s.name = t.name),
    printf('SELECT count(*) FROM "%w"', name),
    printf('SELECT %s FROM "%w" ORDER BY %s', quoted, name, COALESCE(keys, 'rowid')),
    printf('INSERT INTO "%w" (%s) VALUES (%s)', name, quoted, loaded)
FROM (
    SELECT
        t.name,
        (SELECT json_group_array(name) FROM (SELECT name FROM pragma_table_info(t.name) ORDER BY cid)) AS columns,
        (
            SELECT group_concat(printf('"%w"', name), ', ')
            FROM (SELECT name FROM pragma_table_info(t.name) ORDER BY cid)
        ) AS quoted,
        (
            SELECT group_concat(printf('"%w"', name), ', ')
            FROM (SELECT name FROM pragma_table_info(t.name) WHERE pk > 0 ORDER BY pk)
        ) AS keys,
        (
            SELECT group_concat(printf('iif(?%d, CAST(?%d AS TEXT), ?%d)', 2 * cid + 2, 2 * cid + 1, 2 * cid + 1), ', ')
            FROM (SELECT cid FROM pragma_table_info(t.name) ORDER BY cid)
        ) AS loaded
    FROM sqlite_schema AS t
    WHERE t.type = 'table' AND t.name IN (SELECT value FROM json_each(:names))
) AS t
ORDER BY name

-- name: migration_note
SELECT value FROM _brant_meta WHERE key = 'migration'

-- name: save_migration_note
INSERT OR REPLACE INTO _brant_meta (key, value) VALUES ('migration', :note)

-- name: forget_migration_note
DELETE FROM _brant_meta WHERE key = 'migration'

-- Rows may come before those that they refer to; the commit checks them all.
-- name: defer_references
PRAGMA defer_foreign_keys = ON

-- A parameter can't be text that is not UTF-8: such text comes as bytes, and the flag tells it from a blob.
-- fragment: loaded_name
iif(:name_is_broken, CAST(:name AS TEXT), :name)

-- fragment: loaded_alias
iif(:alias_is_broken, CAST(:alias AS TEXT), :alias)

-- fragment: loaded_target
iif(:target_is_broken, CAST(:target AS TEXT), :target)

-- fragment: loaded_queue
iif(:queue_is_broken, CAST(:queue AS TEXT), :queue)

-- fragment: loaded_payload
iif(:payload_is_broken, CAST(:payload AS TEXT), :payload)

-- fragment: loaded_state
iif(:state_is_broken, CAST(:state AS TEXT), :state)

-- fragment: loaded_worker_id
iif(:worker_id_is_broken, CAST(:worker_id AS TEXT), :worker_id)

-- fragment: loaded_last_error
iif(:last_error_is_broken, CAST(:last_error AS TEXT), :last_error)

-- fragment: loaded_error
iif(:error_is_broken, CAST(:error AS TEXT), :error)

-- fragment: loaded_key
iif(:key_is_broken, CAST(:key AS TEXT), :key)

-- fragment: loaded_value
iif(:value_is_broken, CAST(:value AS TEXT), :value)

-- fragment: loaded_topic
iif(:topic_is_broken, CAST(:topic AS TEXT), :topic)

-- fragment: loaded_channel
iif(:channel_is_broken, CAST(:channel AS TEXT), :channel)

-- fragment: loaded_cron_expr
iif(:cron_expr_is_broken, CAST(:cron_expr AS TEXT), :cron_expr)

-- fragment: loaded_tz
iif(:tz_is_broken, CAST(:tz AS TEXT), :tz)

-- fragment: loaded_missed
iif(:missed_is_broken, CAST(:missed AS TEXT), :missed)

-- fragment: loaded_owner
iif(:owner_is_broken, CAST(:owner AS TEXT), :owner)

-- fragment: loaded_note
iif(:note_is_broken, CAST(:note AS TEXT), :note)

-- fragment: loaded_then_queue
iif(:then_queue_is_broken, CAST(:then_queue AS TEXT), :then_queue)

-- fragment: loaded_then_payload
iif(:then_payload_is_broken, CAST(:then_payload AS TEXT), :then_payload)

-- fragment: loaded_then_path
iif(:then_path_is_broken, CAST(:then_path AS TEXT), :then_path)

-- name: dump_queues
SELECT name, paused, events FROM _brant_queues ORDER BY name

-- name: load_queues
INSERT INTO _brant_queues (name, paused, events)
VALUES ({{loaded_name}}, :paused, :events)

-- name: dump_aliases
SELECT alias, target FROM _brant_aliases ORDER BY alias

-- name: load_aliases
INSERT INTO _brant_aliases (alias, target)
VALUES ({{loaded_alias}}, {{loaded_target}})

-- name: dump_live
SELECT
    id, queue, payload, state, priority, run_at, worker_id, claim_expires_at, attempts, max_attempts,
    created_at, expires_at
FROM _honker_live ORDER BY id

-- name: load_live
INSERT INTO _honker_live (
    id, queue, payload, state, priority, run_at, worker_id, claim_expires_at, attempts, max_attempts,
    created_at, expires_at
)
VALUES (
    :id, {{loaded_queue}}, {{loaded_payload}}, {{loaded_state}}, :priority, :run_at, {{loaded_worker_id}},
    :claim_expires_at, :attempts, :max_attempts, :created_at, :expires_at
)

-- name: dump_dead
SELECT id, queue, payload, priority, run_at, attempts, max_attempts, last_error, created_at, died_at
FROM _honker_dead ORDER BY id

-- name: load_dead
INSERT INTO _honker_dead (id, queue, payload, priority, run_at, attempts, max_attempts, last_error, created_at, died_at)
VALUES (
    :id, {{loaded_queue}}, {{loaded_payload}}, :priority, :run_at, :attempts, :max_attempts,
    {{loaded_last_error}}, :created_at, :died_at
)

-- name: dump_attempts
SELECT job_id, attempt, worker_id, error, failed_at FROM _brant_attempts ORDER BY rowid

-- name: load_attempts
INSERT INTO _brant_attempts (job_id, attempt, worker_id, error, failed_at)
VALUES (:job_id, :attempt, {{loaded_worker_id}}, {{loaded_error}}, :failed_at)

-- name: dump_unique
SELECT queue, key, job_id, expires_at FROM _brant_unique ORDER BY queue, key

-- name: load_unique
INSERT INTO _brant_unique (queue, key, job_id, expires_at)
VALUES ({{loaded_queue}}, {{loaded_key}}, :job_id, :expires_at)

-- name: dump_batches
SELECT
    id, note, then_queue, then_payload, then_path, then_priority, then_max_attempts, then_expires_s,
    then_job_id, total, succeeded, dead, cancelled, sealed, settled, created_at, settled_at, keep_s
FROM _brant_batches ORDER BY id

-- name: load_batches
INSERT INTO _brant_batches (
    id, note, then_queue, then_payload, then_path, then_priority, then_max_attempts, then_expires_s,
    then_job_id, total, succeeded, dead, cancelled, sealed, settled, created_at, settled_at, keep_s
)
VALUES (
    :id, {{loaded_note}}, {{loaded_then_queue}}, {{loaded_then_payload}}, {{loaded_then_path}}, :then_priority, :then_max_attempts, :then_expires_s,
    :then_job_id, :total, :succeeded, :dead, :cancelled, :sealed, :settled, :created_at, :settled_at, :keep_s
)

-- name: dump_batch_jobs
SELECT job_id, batch_id, state FROM _brant_batch_jobs ORDER BY job_id

-- name: load_batch_jobs
INSERT INTO _brant_batch_jobs (job_id, batch_id, state) VALUES (:job_id, :batch_id, {{loaded_state}})

-- name: dump_limits
SELECT queue, key, max_running, max_starts, per_s, wake_at, forget_at FROM _brant_limits ORDER BY queue, key

-- name: load_limits
INSERT INTO _brant_limits (queue, key, max_running, max_starts, per_s, wake_at, forget_at)
VALUES ({{loaded_queue}}, {{loaded_key}}, :max_running, :max_starts, :per_s, :wake_at, :forget_at)

-- name: dump_limited
SELECT job_id, queue, key, running, priority, run_at FROM _brant_limited ORDER BY job_id

-- name: load_limited
INSERT INTO _brant_limited (job_id, queue, key, running, priority, run_at)
VALUES (:job_id, {{loaded_queue}}, {{loaded_key}}, :running, :priority, :run_at)

-- name: dump_starts
SELECT queue, key, number, started_at FROM _brant_starts ORDER BY queue, key, number

-- name: load_starts
INSERT INTO _brant_starts (queue, key, number, started_at)
VALUES ({{loaded_queue}}, {{loaded_key}}, :number, :started_at)

-- name: dump_results
SELECT job_id, value, created_at, expires_at FROM _honker_results ORDER BY job_id

-- name: load_results
INSERT INTO _honker_results (job_id, value, created_at, expires_at)
VALUES (:job_id, {{loaded_value}}, :created_at, :expires_at)

-- name: dump_stream
SELECT offset, topic, key, payload, created_at FROM _honker_stream ORDER BY offset

-- name: load_stream
INSERT INTO _honker_stream (offset, topic, key, payload, created_at)
VALUES (:offset, {{loaded_topic}}, {{loaded_key}}, {{loaded_payload}}, :created_at)

-- name: dump_stream_consumers
SELECT name, topic, offset FROM _honker_stream_consumers ORDER BY name, topic

-- name: load_stream_consumers
INSERT INTO _honker_stream_consumers (name, topic, offset)
VALUES ({{loaded_name}}, {{loaded_topic}}, :offset)

-- name: dump_notifications
SELECT id, channel, payload, created_at FROM _honker_notifications ORDER BY id

-- name: load_notifications
INSERT INTO _honker_notifications (id, channel, payload, created_at)
VALUES (:id, {{loaded_channel}}, {{loaded_payload}}, :created_at)

-- name: dump_scheduler_tasks
SELECT name, queue, cron_expr, payload, priority, expires_s, next_fire_at, enabled, max_attempts
FROM _honker_scheduler_tasks ORDER BY name

-- name: load_scheduler_tasks
INSERT INTO _honker_scheduler_tasks (
    name, queue, cron_expr, payload, priority, expires_s, next_fire_at, enabled, max_attempts
)
VALUES (
    {{loaded_name}}, {{loaded_queue}}, {{loaded_cron_expr}}, {{loaded_payload}}, :priority, :expires_s,
    :next_fire_at, :enabled, :max_attempts
)

-- name: dump_schedules
SELECT name, tz, missed, last_fire_at, error FROM _brant_schedules ORDER BY name

-- name: load_schedules
INSERT INTO _brant_schedules (name, tz, missed, last_fire_at, error)
VALUES ({{loaded_name}}, {{loaded_tz}}, {{loaded_missed}}, :last_fire_at, {{loaded_error}})

-- name: dump_locks
SELECT name, owner, expires_at FROM _honker_locks ORDER BY name

-- name: load_locks
INSERT INTO _honker_locks (name, owner, expires_at)
VALUES ({{loaded_name}}, {{loaded_owner}}, :expires_at)

-- name: dump_rate_limits
SELECT name, window_start, count FROM _honker_rate_limits ORDER BY name, window_start

-- name: load_rate_limits
INSERT INTO _honker_rate_limits (name, window_start, count)
VALUES ({{loaded_name}}, :window_start, :count)
