SELECT delivery.id, endpoint.name, event_id, received_at, provider_event_id, provider_delivery_id, event_type, method,
    headers_json, body_blob, query_json, signature_valid, signature_error, dedupe_key
FROM knocker_deliveries AS delivery
JOIN knocker_endpoints AS endpoint ON endpoint.id = endpoint_id
WHERE :names IS NULL OR endpoint.name IN (SELECT value FROM json_each(:names))
ORDER BY delivery.id
