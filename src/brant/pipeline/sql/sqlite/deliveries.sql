-- An accepted one without an event brought one that retention has deleted since.
-- fragment: deliveries_columns
delivery.id,
    CASE WHEN :endpoint THEN CAST(endpoint.name AS BLOB) END,
    CASE WHEN :provider THEN CAST(endpoint.provider AS BLOB) END,
    CASE WHEN :event_id THEN event_id END,
    CASE WHEN :received_at THEN CAST(received_at * 1000000 AS INTEGER) END,
    CASE WHEN :provider_event_id THEN CAST(provider_event_id AS BLOB) END,
    CASE WHEN :provider_delivery_id THEN CAST(provider_delivery_id AS BLOB) END,
    CASE WHEN :event_type THEN CAST(event_type AS BLOB) END,
    CASE WHEN :method THEN CAST(method AS BLOB) END,
    CASE WHEN :headers THEN CAST(headers_json AS BLOB) END,
    CASE WHEN :body AND length(CAST(body_blob AS BLOB)) <= :small THEN CAST(body_blob AS BLOB) END,
    CASE WHEN :query THEN CAST(query_json AS BLOB) END,
    CASE WHEN :signature_valid THEN CAST(signature_valid AS INTEGER) END,
    CASE WHEN :signature_error THEN CAST(signature_error AS BLOB) END,
    CASE WHEN :dedupe_key THEN CAST(dedupe_key AS BLOB) END,
    CASE WHEN :duplicate THEN CASE
        WHEN signature_valid IS 0 THEN 0
        WHEN event_id IS NULL THEN 1
        ELSE EXISTS (
            SELECT 1 FROM knocker_deliveries AS earlier
            WHERE earlier.event_id = delivery.event_id AND earlier.id < delivery.id
        )
    END END

-- The first row tells the types.
-- fragment: deliveries_types
SELECT
    0 AS id, x'' AS endpoint, x'' AS provider, 0 AS event_id, 0 AS received_at, x'' AS provider_event_id,
    x'' AS provider_delivery_id, x'' AS event_type, x'' AS method, x'' AS headers, x'' AS body, x'' AS query,
    0 AS signature_valid, x'' AS signature_error, x'' AS dedupe_key, 0 AS duplicate
UNION ALL

-- name: deliveries_bounds
SELECT
    (SELECT min(id) FROM knocker_deliveries) AS first,
    max(
        coalesce((SELECT max(id) FROM knocker_deliveries), 0),
        coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = 'knocker_deliveries'), 0)
    ) AS last

-- name: deliveries_count
SELECT count(*) FROM knocker_deliveries WHERE id > :after AND id <= :until

-- name: deliveries_first_of_one
SELECT min(id) FROM knocker_deliveries
WHERE endpoint_id = (SELECT id FROM knocker_endpoints WHERE name = :name) AND id > :after

-- name: deliveries_names
SELECT DISTINCT name FROM knocker_endpoints

-- name: deliveries_nth
SELECT id FROM knocker_deliveries WHERE id > :after AND id <= :until ORDER BY id LIMIT 1 OFFSET :skip

-- name: deliveries_nth_of_one
SELECT id FROM knocker_deliveries
WHERE endpoint_id = (SELECT id FROM knocker_endpoints WHERE name = :name) AND id > :after AND id <= :until
ORDER BY id
LIMIT 1 OFFSET :skip

-- name: deliveries_nth_of_some
SELECT id FROM knocker_deliveries
WHERE +endpoint_id IN (SELECT id FROM knocker_endpoints WHERE name IN (SELECT value FROM json_each(:names)))
    AND id > :after AND id <= :until
ORDER BY id
LIMIT 1 OFFSET :skip

-- name: deliveries_page
{{deliveries_types}}
SELECT * FROM (
    SELECT {{deliveries_columns}}
    FROM knocker_deliveries AS delivery
    LEFT JOIN knocker_endpoints AS endpoint ON endpoint.id = delivery.endpoint_id
    WHERE delivery.id > :after AND delivery.id <= :until
    ORDER BY delivery.id
    LIMIT :rows
)

-- name: deliveries_page_of_one
{{deliveries_types}}
SELECT * FROM (
    SELECT {{deliveries_columns}}
    FROM knocker_deliveries AS delivery
    LEFT JOIN knocker_endpoints AS endpoint ON endpoint.id = delivery.endpoint_id
    WHERE delivery.endpoint_id = (SELECT id FROM knocker_endpoints WHERE name = :name)
        AND delivery.id > :after AND delivery.id <= :until
    ORDER BY delivery.id
    LIMIT :rows
)

-- name: deliveries_payload
SELECT x'' AS payload
UNION ALL
SELECT CAST(body_blob AS BLOB) FROM knocker_deliveries WHERE id = :cursor

-- name: deliveries_time_at
SELECT id, received_at FROM knocker_deliveries WHERE id >= :cursor ORDER BY id LIMIT 1
