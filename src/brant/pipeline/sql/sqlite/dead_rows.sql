SELECT id, queue, payload, priority, run_at, attempts, max_attempts, last_error, created_at, died_at
FROM _honker_dead
WHERE :names IS NULL OR queue IN (SELECT value FROM json_each(:names))
ORDER BY id
