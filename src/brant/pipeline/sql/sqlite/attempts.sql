-- fragment: attempts_columns
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

-- The first row tells the types.
-- fragment: attempts_types
SELECT
    0 AS id, 0 AS event_id, x'' AS endpoint, x'' AS provider, x'' AS event_type, 0 AS received_at, 0 AS attempted_at,
    x'' AS outcome, x'' AS error, 0 AS duration_ms
UNION ALL

-- name: attempts_bounds
SELECT
    (SELECT min(id) FROM knocker_attempts) AS first,
    max(
        coalesce((SELECT max(id) FROM knocker_attempts), 0),
        coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = 'knocker_attempts'), 0)
    ) AS last

-- name: attempts_count
SELECT count(*) FROM knocker_attempts WHERE id > :after AND id <= :until

-- name: attempts_first_of_one
SELECT min(attempt.id)
FROM knocker_attempts AS attempt
JOIN knocker_events AS event ON event.id = attempt.event_id
WHERE event.endpoint_id = (SELECT id FROM knocker_endpoints WHERE name = :name) AND attempt.id > :after

-- name: attempts_names
SELECT DISTINCT name FROM knocker_endpoints

-- name: attempts_nth
SELECT id FROM knocker_attempts WHERE id > :after AND id <= :until ORDER BY id LIMIT 1 OFFSET :skip

-- name: attempts_nth_of_one
SELECT attempt.id
FROM knocker_attempts AS attempt
JOIN knocker_events AS event ON event.id = attempt.event_id
WHERE event.endpoint_id = (SELECT id FROM knocker_endpoints WHERE name = :name)
    AND attempt.id > :after AND attempt.id <= :until
ORDER BY attempt.id
LIMIT 1 OFFSET :skip

-- name: attempts_nth_of_some
SELECT attempt.id
FROM knocker_attempts AS attempt
JOIN knocker_events AS event ON event.id = attempt.event_id
WHERE event.endpoint_id IN (SELECT id FROM knocker_endpoints WHERE name IN (SELECT value FROM json_each(:names)))
    AND attempt.id > :after AND attempt.id <= :until
ORDER BY attempt.id
LIMIT 1 OFFSET :skip

-- name: attempts_page
{{attempts_types}}
SELECT * FROM (
    SELECT {{attempts_columns}}
    FROM knocker_attempts AS attempt
    LEFT JOIN knocker_events AS event ON event.id = attempt.event_id
    LEFT JOIN knocker_endpoints AS endpoint ON endpoint.id = event.endpoint_id
    WHERE attempt.id > :after AND attempt.id <= :until
    ORDER BY attempt.id
    LIMIT :rows
)

-- name: attempts_page_of_one
{{attempts_types}}
SELECT * FROM (
    SELECT {{attempts_columns}}
    FROM knocker_attempts AS attempt
    LEFT JOIN knocker_events AS event ON event.id = attempt.event_id
    LEFT JOIN knocker_endpoints AS endpoint ON endpoint.id = event.endpoint_id
    WHERE event.endpoint_id = (SELECT id FROM knocker_endpoints WHERE name = :name)
        AND attempt.id > :after AND attempt.id <= :until
    ORDER BY attempt.id
    LIMIT :rows
)

-- name: attempts_time_at
SELECT id, attempted_at FROM knocker_attempts WHERE id >= :cursor ORDER BY id LIMIT 1
