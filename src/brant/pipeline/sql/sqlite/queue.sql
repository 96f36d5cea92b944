-- name: queue_exists
SELECT 1 FROM _honker_live LIMIT 1

-- name: queue_names
SELECT DISTINCT queue FROM _honker_live

-- name: queue_rows
SELECT id, queue, payload, state, priority, run_at, worker_id, claim_expires_at, attempts, max_attempts, created_at,
    expires_at
FROM _honker_live
WHERE :names IS NULL OR queue IN (SELECT value FROM json_each(:names))
ORDER BY id
