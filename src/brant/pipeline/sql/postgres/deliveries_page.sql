SELECT
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
    -- An accepted one without an event brought one that retention has deleted since.
    CASE WHEN :duplicate = 1 THEN CASE
        WHEN signature_valid = 0 THEN 0
        WHEN event_id IS NULL THEN 1
        ELSE CAST(EXISTS (
            SELECT 1 FROM brant.knocker_deliveries AS earlier
            WHERE earlier.event_id = delivery.event_id AND earlier.id < delivery.id
        ) AS integer)
    END END AS duplicate
FROM brant.knocker_deliveries AS delivery
LEFT JOIN brant.knocker_endpoints AS endpoint ON endpoint.id = delivery.endpoint_id
WHERE delivery.id > :after AND delivery.id <= :until
ORDER BY delivery.id
LIMIT :rows
