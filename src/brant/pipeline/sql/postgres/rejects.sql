-- name: rejects_exists
SELECT 1 FROM brant._brant_inbox_rejects LIMIT 1

-- name: rejects_names
SELECT DISTINCT name FROM brant.knocker_endpoints

-- name: rejects_rows
SELECT endpoint.name, provider, hour, status, reason, count, last_at
FROM brant._brant_inbox_rejects
LEFT JOIN brant.knocker_endpoints AS endpoint ON endpoint.id = endpoint_id
WHERE CAST(:names AS json) IS NULL OR endpoint.name IN (SELECT json_array_elements_text(CAST(:names AS json)))
ORDER BY endpoint_id, hour, status, reason
