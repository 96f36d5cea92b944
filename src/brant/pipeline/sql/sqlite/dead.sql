-- name: dead_exists
SELECT 1 FROM _honker_dead LIMIT 1

-- name: dead_names
SELECT DISTINCT queue FROM _honker_dead

-- name: dead_rows
SELECT id, queue, payload, priority, run_at, attempts, max_attempts, last_error, created_at, died_at
FROM _honker_dead
WHERE :names IS NULL OR queue IN (SELECT value FROM json_each(:names))
ORDER BY id
