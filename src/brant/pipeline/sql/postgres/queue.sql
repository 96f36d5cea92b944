-- name: queue_exists
SELECT 1 FROM brant._honker_live LIMIT 1

-- name: queue_names
SELECT DISTINCT queue FROM brant._honker_live

-- name: queue_rows
SELECT id, queue, payload, state, priority, run_at, worker_id, claim_expires_at, attempts, max_attempts, created_at,
    expires_at
FROM brant._honker_live
WHERE CAST(:names AS json) IS NULL OR queue IN (SELECT json_array_elements_text(CAST(:names AS json)))
ORDER BY id
