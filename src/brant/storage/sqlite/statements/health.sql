-- name: damage
SELECT quick_check FROM pragma_quick_check WHERE quick_check <> 'ok' LIMIT 10

-- name: abandoned_leases
SELECT queue, count(*) FROM _honker_live
WHERE state = 'processing' AND claim_expires_at < :before GROUP BY queue ORDER BY queue

-- name: overdue_schedules
SELECT task.name {{schedule_from}}
WHERE task.enabled = 1 AND task.next_fire_at < :before AND extra.error IS NULL ORDER BY task.name

-- name: schedules_without_consumers
SELECT task.name, task.queue, (SELECT count(*) FROM _honker_live WHERE queue = task.queue AND state = 'pending')
FROM _honker_scheduler_tasks AS task
WHERE task.enabled = 1
    AND (SELECT count(*) FROM _honker_live WHERE queue = task.queue AND state = 'pending') > :most
ORDER BY task.name
