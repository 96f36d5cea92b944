-- fragment: schedule_columns
task.name, task.queue, task.cron_expr, task.payload, task.priority, task.expires_s, task.next_fire_at, task.enabled,
task.max_attempts, extra.tz, coalesce(extra.missed, 'all'), extra.last_fire_at, extra.error

-- fragment: schedule_from
FROM brant._honker_scheduler_tasks AS task LEFT JOIN brant._brant_schedules AS extra ON extra.name = task.name

-- Who changes a schedule reads it first, and must not write back a time that has fired meanwhile.
-- name: lock_schedule
SELECT 1 FROM brant._honker_scheduler_tasks WHERE name = :name FOR UPDATE

-- name: register_schedule
INSERT INTO brant._honker_scheduler_tasks
    (name, queue, cron_expr, payload, priority, expires_s, next_fire_at, max_attempts)
VALUES (:name, :queue, :expr, :payload, :priority, :expires_s, :next_fire_at, :max_attempts)
ON CONFLICT (name) DO UPDATE SET
    queue = excluded.queue, cron_expr = excluded.cron_expr, payload = excluded.payload,
    priority = excluded.priority, expires_s = excluded.expires_s, next_fire_at = excluded.next_fire_at,
    max_attempts = excluded.max_attempts

-- name: describe_schedule
INSERT INTO brant._brant_schedules (name, tz, missed) VALUES (:name, :tz, :missed)
ON CONFLICT (name) DO UPDATE SET tz = excluded.tz, missed = excluded.missed, error = NULL

-- name: get_schedule
SELECT {{schedule_columns}} {{schedule_from}} WHERE task.name = :name

-- name: list_schedules
SELECT {{schedule_columns}} {{schedule_from}} ORDER BY task.name

-- One that another scheduler is about to fire is left to that one.
-- name: due_schedules
SELECT {{schedule_columns}} {{schedule_from}}
WHERE task.enabled = 1 AND task.next_fire_at <= :now AND extra.error IS NULL
ORDER BY task.next_fire_at, task.name
FOR UPDATE OF task SKIP LOCKED

-- name: advance_schedule
UPDATE brant._honker_scheduler_tasks SET next_fire_at = :next_fire_at WHERE name = :name

-- name: note_fire
INSERT INTO brant._brant_schedules (name, last_fire_at) VALUES (:name, :fired_at)
ON CONFLICT (name) DO UPDATE SET last_fire_at = excluded.last_fire_at

-- name: park_schedule
INSERT INTO brant._brant_schedules (name, error) VALUES (:name, :error)
ON CONFLICT (name) DO UPDATE SET error = excluded.error

-- name: next_schedule_at
SELECT min(task.next_fire_at) {{schedule_from}} WHERE task.enabled = 1 AND extra.error IS NULL

-- name: enable_schedule
UPDATE brant._honker_scheduler_tasks SET enabled = :enabled WHERE name = :name AND enabled <> :enabled

-- name: update_schedule
UPDATE brant._honker_scheduler_tasks
SET cron_expr = :expr, payload = :payload, priority = :priority, expires_s = :expires_s,
    next_fire_at = :next_fire_at, max_attempts = :max_attempts
WHERE name = :name

-- name: remove_schedule
DELETE FROM brant._honker_scheduler_tasks WHERE name = :name

-- name: remove_schedule_extra
DELETE FROM brant._brant_schedules WHERE name = :name
