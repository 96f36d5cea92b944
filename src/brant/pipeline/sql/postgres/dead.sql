-- name: dead_exists
SELECT 1 FROM brant._honker_dead LIMIT 1

-- name: dead_names
SELECT DISTINCT queue FROM brant._honker_dead

-- name: dead_rows
SELECT id, queue, payload, priority, run_at, attempts, max_attempts, last_error, created_at, died_at
FROM brant._honker_dead
WHERE CAST(:names AS json) IS NULL OR queue IN (SELECT json_array_elements_text(CAST(:names AS json)))
ORDER BY id
