SELECT attempt.id, event_id, endpoint.name, event_type, attempted_at, outcome, error, duration_ms
FROM knocker_attempts AS attempt
JOIN knocker_events AS event ON event.id = event_id
JOIN knocker_endpoints AS endpoint ON endpoint.id = endpoint_id
WHERE :names IS NULL OR endpoint.name IN (SELECT value FROM json_each(:names))
ORDER BY attempt.id
