SELECT id, queue, payload, state, priority, run_at, worker_id, claim_expires_at, attempts, max_attempts, created_at,
    expires_at
FROM _honker_live
WHERE :names IS NULL OR queue IN (SELECT value FROM json_each(:names))
ORDER BY id
