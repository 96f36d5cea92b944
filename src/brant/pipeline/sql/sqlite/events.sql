-- name: events_exists
SELECT 1 FROM knocker_events LIMIT 1

-- name: events_names
SELECT DISTINCT name FROM knocker_endpoints

-- name: events_rows
SELECT event.id, endpoint.name, received_at, provider_event_id, provider_delivery_id, event_type, method, headers_json,
    body_blob, query_json, dedupe_key, status, attempt_count, handled_at, last_error
FROM knocker_events AS event
JOIN knocker_endpoints AS endpoint ON endpoint.id = endpoint_id
WHERE :names IS NULL OR endpoint.name IN (SELECT value FROM json_each(:names))
ORDER BY event.id
