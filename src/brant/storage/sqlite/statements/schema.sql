-- name: schema_version
SELECT value FROM _brant_meta WHERE key = 'schema_version'

-- name: set_schema_version
INSERT OR REPLACE INTO _brant_meta (key, value) VALUES ('schema_version', :version)

-- Changes nothing, but begins as a write does.
-- name: take_write_lock
UPDATE _brant_meta SET value = value WHERE 0

-- name: schedule_table_columns
SELECT name FROM pragma_table_info('_honker_scheduler_tasks')

-- name: add_schedule_enabled
ALTER TABLE _honker_scheduler_tasks ADD COLUMN enabled INTEGER NOT NULL DEFAULT 1

-- name: add_schedule_max_attempts
ALTER TABLE _honker_scheduler_tasks ADD COLUMN max_attempts INTEGER NOT NULL DEFAULT 3

-- The layout of early Honker files: two tables where there is one now.
-- name: old_layout
SELECT name FROM sqlite_schema WHERE type = 'table' AND name IN ('_honker_pending', '_honker_processing')

-- name: rescue_old_pending
INSERT INTO _honker_live (queue, payload, priority, run_at, attempts, max_attempts, created_at)
SELECT queue, payload, priority, run_at, attempts, max_attempts, created_at FROM _honker_pending ORDER BY id

-- name: rescue_old_processing
INSERT INTO _honker_live (queue, payload, priority, run_at, attempts, max_attempts, created_at)
SELECT queue, payload, priority, run_at, attempts, max_attempts, created_at FROM _honker_processing ORDER BY id

-- name: drop_old_pending
DROP TABLE _honker_pending

-- name: drop_old_processing
DROP TABLE _honker_processing

-- name: drop_old_index_1
DROP INDEX IF EXISTS _honker_jobs_claim

-- name: drop_old_index_2
DROP INDEX IF EXISTS _honker_jobs_claim_v2

-- name: drop_old_index_3
DROP INDEX IF EXISTS _honker_pending_claim

-- name: drop_old_index_4
DROP INDEX IF EXISTS _honker_processing_reclaim

-- fragment: is_own
(name LIKE '\_honker\_%' ESCAPE '\' OR name LIKE '\_brant\_%' ESCAPE '\' OR name LIKE 'knocker\_%' ESCAPE '\')

-- Views first: a table that a view reads can be dropped, a view of a dropped table can't be read by the next drop.
-- name: own_objects
SELECT type, name FROM sqlite_schema WHERE {{is_own}} ORDER BY type DESC, name

-- name: foreign_tables
SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\' AND NOT {{is_own}}
