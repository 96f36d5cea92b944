SELECT
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
FROM brant.knocker_attempts AS attempt
LEFT JOIN brant.knocker_events AS event ON event.id = attempt.event_id
LEFT JOIN brant.knocker_endpoints AS endpoint ON endpoint.id = event.endpoint_id
WHERE attempt.id > :after AND attempt.id <= :until
ORDER BY attempt.id
LIMIT :rows
