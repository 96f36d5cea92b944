-- name: rejects_exists
SELECT 1 FROM _brant_inbox_rejects LIMIT 1

-- name: rejects_names
SELECT DISTINCT name FROM knocker_endpoints

-- name: rejects_rows
SELECT endpoint.name, provider, hour, status, reason, count, last_at
FROM _brant_inbox_rejects
LEFT JOIN knocker_endpoints AS endpoint ON endpoint.id = endpoint_id
WHERE :names IS NULL OR endpoint.name IN (SELECT value FROM json_each(:names))
ORDER BY endpoint_id, hour, status, reason
