-- name: events_exists
SELECT 1 FROM brant.knocker_events LIMIT 1

-- name: events_names
SELECT DISTINCT name FROM brant.knocker_endpoints

-- name: events_rows
SELECT event.id, endpoint.name, received_at, provider_event_id, provider_delivery_id, event_type, method, headers_json,
    body_blob, query_json, dedupe_key, status, attempt_count, handled_at, last_error
FROM brant.knocker_events AS event
JOIN brant.knocker_endpoints AS endpoint ON endpoint.id = endpoint_id
WHERE CAST(:names AS json) IS NULL OR endpoint.name IN (SELECT json_array_elements_text(CAST(:names AS json)))
ORDER BY event.id
