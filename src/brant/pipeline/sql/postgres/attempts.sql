-- fragment: attempts_columns
attempt.id,
    CASE WHEN :event_id = 1 THEN attempt.event_id END AS event_id,
    CASE WHEN :endpoint = 1 THEN endpoint.name END AS endpoint,
    CASE WHEN :provider = 1 THEN endpoint.provider END AS provider,
    CASE WHEN :event_type = 1 THEN event.event_type END AS event_type,
    CASE WHEN :received_at = 1 THEN event.received_at * 1000000 END AS received_at,
    CASE WHEN :attempted_at = 1 THEN attempted_at * 1000000 END AS attempted_at,
    CASE WHEN :outcome = 1 THEN outcome END AS outcome,
    CASE WHEN :error = 1 THEN attempt.error END AS error,
    CASE WHEN :duration_ms = 1 THEN duration_ms END AS duration_ms

-- name: attempts_bounds
SELECT
    (SELECT min(id) FROM brant.knocker_attempts) AS first,
    greatest(
        coalesce((SELECT max(id) FROM brant.knocker_attempts), 0),
        coalesce(pg_sequence_last_value(CAST(pg_get_serial_sequence('brant.knocker_attempts', 'id') AS regclass)), 0)
    ) AS last

-- name: attempts_count
SELECT count(*) FROM brant.knocker_attempts WHERE id > :after AND id <= :until

-- name: attempts_first_of_one
SELECT min(attempt.id)
FROM brant.knocker_attempts AS attempt
JOIN brant.knocker_events AS event ON event.id = attempt.event_id
WHERE event.endpoint_id = (SELECT id FROM brant.knocker_endpoints WHERE name = :name) AND attempt.id > :after

-- name: attempts_given
SELECT
    coalesce(pg_sequence_last_value(ids), CASE WHEN has_sequence_privilege(ids, 'SELECT') THEN 0 END) AS last,
    pg_is_in_recovery() AS is_replica
FROM CAST(pg_get_serial_sequence('brant.knocker_attempts', 'id') AS regclass) AS ids

-- name: attempts_names
SELECT DISTINCT name FROM brant.knocker_endpoints

-- name: attempts_nth
SELECT id FROM brant.knocker_attempts WHERE id > :after AND id <= :until ORDER BY id LIMIT 1 OFFSET :skip

-- name: attempts_nth_of_one
SELECT attempt.id
FROM brant.knocker_attempts AS attempt
JOIN brant.knocker_events AS event ON event.id = attempt.event_id
WHERE event.endpoint_id = (SELECT id FROM brant.knocker_endpoints WHERE name = :name)
    AND attempt.id > :after AND attempt.id <= :until
ORDER BY attempt.id
LIMIT 1 OFFSET :skip

-- name: attempts_nth_of_some
SELECT attempt.id
FROM brant.knocker_attempts AS attempt
JOIN brant.knocker_events AS event ON event.id = attempt.event_id
WHERE event.endpoint_id IN (
    SELECT id FROM brant.knocker_endpoints WHERE name IN (SELECT json_array_elements_text(CAST(:names AS json)))
)
    AND attempt.id > :after AND attempt.id <= :until
ORDER BY attempt.id
LIMIT 1 OFFSET :skip

-- name: attempts_page
SELECT {{attempts_columns}}
FROM brant.knocker_attempts AS attempt
LEFT JOIN brant.knocker_events AS event ON event.id = attempt.event_id
LEFT JOIN brant.knocker_endpoints AS endpoint ON endpoint.id = event.endpoint_id
WHERE attempt.id > :after AND attempt.id <= :until
ORDER BY attempt.id
LIMIT :rows

-- name: attempts_page_of_one
SELECT {{attempts_columns}}
FROM brant.knocker_attempts AS attempt
LEFT JOIN brant.knocker_events AS event ON event.id = attempt.event_id
LEFT JOIN brant.knocker_endpoints AS endpoint ON endpoint.id = event.endpoint_id
WHERE event.endpoint_id = (SELECT id FROM brant.knocker_endpoints WHERE name = :name)
    AND attempt.id > :after AND attempt.id <= :until
ORDER BY attempt.id
LIMIT :rows

-- name: attempts_time_at
SELECT id, attempted_at FROM brant.knocker_attempts WHERE id >= :cursor ORDER BY id LIMIT 1

-- name: attempts_writers
SELECT virtualtransaction FROM pg_locks
WHERE locktype = 'relation' AND mode = 'RowExclusiveLock'
    AND relation = CAST(CAST('brant.knocker_attempts' AS regclass) AS oid)
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
