-- An accepted one without an event brought one that retention has deleted since.
-- fragment: deliveries_columns
delivery.id,
    CASE WHEN :endpoint = 1 THEN endpoint.name END AS endpoint,
    CASE WHEN :provider = 1 THEN endpoint.provider END AS provider,
    CASE WHEN :event_id = 1 THEN event_id END AS event_id,
    CASE WHEN :received_at = 1 THEN delivery.received_at * 1000000 END AS received_at,
    CASE WHEN :provider_event_id = 1 THEN provider_event_id END AS provider_event_id,
    CASE WHEN :provider_delivery_id = 1 THEN provider_delivery_id END AS provider_delivery_id,
    CASE WHEN :event_type = 1 THEN event_type END AS event_type,
    CASE WHEN :method = 1 THEN method END AS method,
    CASE WHEN :headers = 1 THEN headers_json END AS headers,
    CASE WHEN :body = 1 AND octet_length(body_blob) <= :small THEN body_blob END AS body,
    CASE WHEN :query = 1 THEN query_json END AS query,
    CASE WHEN :signature_valid = 1 THEN CAST(signature_valid AS bigint) END AS signature_valid,
    CASE WHEN :signature_error = 1 THEN signature_error END AS signature_error,
    CASE WHEN :dedupe_key = 1 THEN dedupe_key END AS dedupe_key,
    CASE WHEN :duplicate = 1 THEN CASE
        WHEN signature_valid = 0 THEN 0
        WHEN event_id IS NULL THEN 1
        ELSE CAST(EXISTS (
            SELECT 1 FROM brant.knocker_deliveries AS earlier
            WHERE earlier.event_id = delivery.event_id AND earlier.id < delivery.id
        ) AS integer)
    END END AS duplicate

-- name: deliveries_bounds
SELECT
    (SELECT min(id) FROM brant.knocker_deliveries) AS first,
    greatest(
        coalesce((SELECT max(id) FROM brant.knocker_deliveries), 0),
        coalesce(pg_sequence_last_value(CAST(pg_get_serial_sequence('brant.knocker_deliveries', 'id') AS regclass)), 0)
    ) AS last

-- name: deliveries_count
SELECT count(*) FROM brant.knocker_deliveries WHERE id > :after AND id <= :until

-- name: deliveries_first_of_one
SELECT min(id) FROM brant.knocker_deliveries
WHERE endpoint_id = (SELECT id FROM brant.knocker_endpoints WHERE name = :name) AND id > :after

-- name: deliveries_given
SELECT
    coalesce(pg_sequence_last_value(ids), CASE WHEN has_sequence_privilege(ids, 'SELECT') THEN 0 END) AS last,
    pg_is_in_recovery() AS is_replica
FROM CAST(pg_get_serial_sequence('brant.knocker_deliveries', 'id') AS regclass) AS ids

-- name: deliveries_names
SELECT DISTINCT name FROM brant.knocker_endpoints

-- name: deliveries_nth
SELECT id FROM brant.knocker_deliveries WHERE id > :after AND id <= :until ORDER BY id LIMIT 1 OFFSET :skip

-- name: deliveries_nth_of_one
SELECT id FROM brant.knocker_deliveries
WHERE endpoint_id = (SELECT id FROM brant.knocker_endpoints WHERE name = :name) AND id > :after AND id <= :until
ORDER BY id
LIMIT 1 OFFSET :skip

-- name: deliveries_nth_of_some
SELECT id FROM brant.knocker_deliveries
WHERE endpoint_id IN (
    SELECT id FROM brant.knocker_endpoints WHERE name IN (SELECT json_array_elements_text(CAST(:names AS json)))
)
    AND id > :after AND id <= :until
ORDER BY id
LIMIT 1 OFFSET :skip

-- name: deliveries_page
SELECT {{deliveries_columns}}
FROM brant.knocker_deliveries AS delivery
LEFT JOIN brant.knocker_endpoints AS endpoint ON endpoint.id = delivery.endpoint_id
WHERE delivery.id > :after AND delivery.id <= :until
ORDER BY delivery.id
LIMIT :rows

-- name: deliveries_page_of_one
SELECT {{deliveries_columns}}
FROM brant.knocker_deliveries AS delivery
LEFT JOIN brant.knocker_endpoints AS endpoint ON endpoint.id = delivery.endpoint_id
WHERE delivery.endpoint_id = (SELECT id FROM brant.knocker_endpoints WHERE name = :name)
    AND delivery.id > :after AND delivery.id <= :until
ORDER BY delivery.id
LIMIT :rows

-- name: deliveries_payload
SELECT body_blob FROM brant.knocker_deliveries WHERE id = :cursor

-- name: deliveries_time_at
SELECT id, received_at FROM brant.knocker_deliveries WHERE id >= :cursor ORDER BY id LIMIT 1

-- name: deliveries_writers
SELECT virtualtransaction FROM pg_locks
WHERE locktype = 'relation' AND mode = 'RowExclusiveLock'
    AND relation = CAST(CAST('brant.knocker_deliveries' AS regclass) AS oid)
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
