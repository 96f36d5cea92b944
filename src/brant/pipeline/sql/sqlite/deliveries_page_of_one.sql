SELECT
    0 AS id, x'' AS endpoint, x'' AS provider, 0 AS event_id, 0 AS received_at, x'' AS provider_event_id,
    x'' AS provider_delivery_id, x'' AS event_type, x'' AS method, x'' AS headers, x'' AS body, x'' AS query,
    0 AS signature_valid, x'' AS signature_error, x'' AS dedupe_key, 0 AS duplicate
UNION ALL
SELECT * FROM (
    SELECT
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
        -- An accepted one without an event brought one that retention has deleted since.
        CASE WHEN :duplicate THEN CASE
            WHEN signature_valid IS 0 THEN 0
            WHEN event_id IS NULL THEN 1
            ELSE EXISTS (
                SELECT 1 FROM knocker_deliveries AS earlier
                WHERE earlier.event_id = delivery.event_id AND earlier.id < delivery.id
            )
        END END
    FROM knocker_deliveries AS delivery
    LEFT JOIN knocker_endpoints AS endpoint ON endpoint.id = delivery.endpoint_id
    WHERE delivery.endpoint_id = (SELECT id FROM knocker_endpoints WHERE name = :name)
        AND delivery.id > :after AND delivery.id <= :until
    ORDER BY delivery.id
    LIMIT :rows
)
