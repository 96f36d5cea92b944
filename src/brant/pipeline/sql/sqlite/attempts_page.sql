SELECT
    0 AS id, 0 AS event_id, x'' AS endpoint, x'' AS provider, x'' AS event_type, 0 AS received_at, 0 AS attempted_at,
    x'' AS outcome, x'' AS error, 0 AS duration_ms
UNION ALL
SELECT * FROM (
    SELECT
        attempt.id,
        CASE WHEN :event_id THEN attempt.event_id END,
        CASE WHEN :endpoint THEN CAST(endpoint.name AS BLOB) END,
        CASE WHEN :provider THEN CAST(endpoint.provider AS BLOB) END,
        CASE WHEN :event_type THEN CAST(event.event_type AS BLOB) END,
        CASE WHEN :received_at THEN CAST(event.received_at * 1000000 AS INTEGER) END,
        CASE WHEN :attempted_at THEN CAST(attempted_at * 1000000 AS INTEGER) END,
        CASE WHEN :outcome THEN CAST(outcome AS BLOB) END,
        CASE WHEN :error THEN CAST(error AS BLOB) END,
        CASE WHEN :duration_ms THEN CAST(duration_ms AS INTEGER) END
    FROM knocker_attempts AS attempt
    LEFT JOIN knocker_events AS event ON event.id = attempt.event_id
    LEFT JOIN knocker_endpoints AS endpoint ON endpoint.id = event.endpoint_id
    WHERE attempt.id > :after AND attempt.id <= :until
    ORDER BY attempt.id
    LIMIT :rows
)
