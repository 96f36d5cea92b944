-- name: results_exists
SELECT 1 FROM brant._honker_results LIMIT 1

-- name: results_rows
SELECT job_id, value, created_at, expires_at FROM brant._honker_results
WHERE CAST(:names AS json) IS NULL
ORDER BY job_id
