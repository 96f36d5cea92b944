-- fragment: event_columns
e.id, n.name AS endpoint, e.endpoint_id, e.received_at, e.provider_event_id, e.provider_delivery_id, e.event_type,
e.method, e.headers_json, e.query_json, e.dedupe_key, e.status, e.attempt_count, e.handled_at, e.last_error,
length(e.body_blob) AS body_bytes

-- The cursor and the filters that no index is chosen by.
-- fragment: event_filters
e.id < ?1 AND (CAST(?2 AS text) IS NULL OR e.event_type = CAST(?2 AS text))
AND (CAST(?3 AS bigint) IS NULL OR e.received_at >= CAST(?3 AS bigint))
AND (CAST(?4 AS bigint) IS NULL OR e.received_at < CAST(?4 AS bigint))

-- fragment: newest_events
ORDER BY e.id DESC LIMIT ?5

-- fragment: of_endpoint
e.endpoint_id = (SELECT id FROM brant.knocker_endpoints WHERE name = ?6)

-- name: list_events
SELECT {{event_columns}}, CASE WHEN CAST(?8 AS boolean) THEN e.body_blob END AS body
FROM brant.knocker_events AS e JOIN brant.knocker_endpoints AS n ON n.id = e.endpoint_id
WHERE CAST(?6 AS text) IS NULL AND CAST(?7 AS text) IS NULL AND {{event_filters}} {{newest_events}}

-- name: list_events_of_status
SELECT {{event_columns}}, CASE WHEN CAST(?8 AS boolean) THEN e.body_blob END AS body
FROM brant.knocker_events AS e JOIN brant.knocker_endpoints AS n ON n.id = e.endpoint_id
WHERE CAST(?6 AS text) IS NULL AND e.status = ?7 AND {{event_filters}} {{newest_events}}

-- name: list_events_of_endpoint
SELECT {{event_columns}}, CASE WHEN CAST(?8 AS boolean) THEN e.body_blob END AS body
FROM brant.knocker_events AS e JOIN brant.knocker_endpoints AS n ON n.id = e.endpoint_id
WHERE {{of_endpoint}} AND CAST(?7 AS text) IS NULL AND {{event_filters}} {{newest_events}}

-- name: list_events_of_both
SELECT {{event_columns}}, CASE WHEN CAST(?8 AS boolean) THEN e.body_blob END AS body
FROM brant.knocker_events AS e JOIN brant.knocker_endpoints AS n ON n.id = e.endpoint_id
WHERE {{of_endpoint}} AND e.status = ?7 AND {{event_filters}} {{newest_events}}

-- name: get_event
SELECT {{event_columns}}, CASE WHEN CAST(?2 AS boolean) THEN e.body_blob END AS body
FROM brant.knocker_events AS e JOIN brant.knocker_endpoints AS n ON n.id = e.endpoint_id
WHERE e.id = ?1

-- name: event_of_key
SELECT {{event_columns}}, CAST(NULL AS bytea) AS body
FROM brant.knocker_events AS e JOIN brant.knocker_endpoints AS n ON n.id = e.endpoint_id
WHERE {{of_endpoint_key}}

-- fragment: of_endpoint_key
e.endpoint_id = (SELECT id FROM brant.knocker_endpoints WHERE name = ?1) AND e.dedupe_key = ?2

-- fragment: delivery_columns
d.id, n.name AS endpoint, d.event_id, d.received_at, d.provider_event_id, d.provider_delivery_id, d.event_type,
d.method, d.headers_json, d.query_json, d.signature_valid, d.signature_error, d.dedupe_key,
length(d.body_blob) AS body_bytes

-- "Not true" is 0 or NULL.
-- fragment: delivery_filters
d.id < ?1 AND (CAST(?2 AS boolean) IS NULL OR (COALESCE(d.signature_valid, 0) = 1) = CAST(?2 AS boolean))
AND (CAST(?3 AS boolean) IS NULL OR (d.event_id IS NULL) = CAST(?3 AS boolean))
AND (CAST(?4 AS bigint) IS NULL OR d.received_at >= CAST(?4 AS bigint))

-- name: list_deliveries
SELECT {{delivery_columns}}, CASE WHEN CAST(?8 AS boolean) THEN d.body_blob END AS body
FROM brant.knocker_deliveries AS d JOIN brant.knocker_endpoints AS n ON n.id = d.endpoint_id
WHERE CAST(?6 AS text) IS NULL AND CAST(?7 AS text) IS NULL AND {{delivery_filters}}
ORDER BY d.id DESC LIMIT ?5

-- name: list_deliveries_of_endpoint
SELECT {{delivery_columns}}, CASE WHEN CAST(?8 AS boolean) THEN d.body_blob END AS body
FROM brant.knocker_deliveries AS d JOIN brant.knocker_endpoints AS n ON n.id = d.endpoint_id
WHERE d.endpoint_id = (SELECT id FROM brant.knocker_endpoints WHERE name = ?6) AND CAST(?7 AS text) IS NULL
    AND {{delivery_filters}}
ORDER BY d.id DESC LIMIT ?5

-- name: list_deliveries_of_event
SELECT {{delivery_columns}}, CASE WHEN CAST(?8 AS boolean) THEN d.body_blob END AS body
FROM brant.knocker_deliveries AS d JOIN brant.knocker_endpoints AS n ON n.id = d.endpoint_id
WHERE d.id IN (
        SELECT id FROM brant.knocker_deliveries WHERE event_id = ?7
        UNION SELECT delivery_id FROM brant._brant_inbox_batches WHERE event_id = ?7
    )
    AND (CAST(?6 AS text) IS NULL OR n.name = CAST(?6 AS text)) AND {{delivery_filters}}
ORDER BY d.id DESC LIMIT ?5

-- name: get_delivery
SELECT {{delivery_columns}}, CASE WHEN CAST(?2 AS boolean) THEN d.body_blob END AS body
FROM brant.knocker_deliveries AS d JOIN brant.knocker_endpoints AS n ON n.id = d.endpoint_id
WHERE d.id = ?1

-- name: events_of_delivery
SELECT event_id FROM brant._brant_inbox_batches WHERE delivery_id = ?1 ORDER BY position

-- name: list_attempts
SELECT id, event_id, attempted_at, outcome, error, duration_ms FROM brant.knocker_attempts
WHERE id < ?1 AND (CAST(?2 AS text) IS NULL OR outcome = CAST(?2 AS text))
    AND (CAST(?3 AS bigint) IS NULL OR attempted_at >= CAST(?3 AS bigint))
ORDER BY id DESC LIMIT ?4

-- name: list_attempts_of_event
SELECT id, event_id, attempted_at, outcome, error, duration_ms FROM brant.knocker_attempts
WHERE event_id = ?5 AND id < ?1 AND (CAST(?2 AS text) IS NULL OR outcome = CAST(?2 AS text))
    AND (CAST(?3 AS bigint) IS NULL OR attempted_at >= CAST(?3 AS bigint))
ORDER BY id DESC LIMIT ?4

-- name: count_events
SELECT n.name AS endpoint, e.status, count(*) AS count
FROM brant.knocker_events AS e JOIN brant.knocker_endpoints AS n ON n.id = e.endpoint_id
GROUP BY n.name, e.status

-- name: oldest_waiting
SELECT min(received_at) AS received_at FROM (
    (SELECT received_at FROM brant.knocker_events WHERE status = 'received' ORDER BY id LIMIT 1)
    UNION ALL
    (SELECT received_at FROM brant.knocker_events WHERE status = 'failed' ORDER BY id LIMIT 1)
) AS waiting

-- name: oldest_waiting_of_endpoint
SELECT min(received_at) AS received_at FROM brant.knocker_events
WHERE endpoint_id = (SELECT id FROM brant.knocker_endpoints WHERE name = ?1) AND status IN ('received', 'failed')

-- name: list_rejects
SELECT n.name AS endpoint, r.hour, r.status, r.reason, r.count, r.last_at
FROM brant._brant_inbox_rejects AS r LEFT JOIN brant.knocker_endpoints AS n ON n.id = r.endpoint_id
WHERE (CAST(?1 AS text) IS NULL OR n.name = CAST(?1 AS text)) AND r.last_at >= ?2
ORDER BY r.last_at DESC, r.count DESC LIMIT ?3

-- name: insert_audit
INSERT INTO brant._brant_inbox_audits (executed_at, action, events, summary_json) VALUES (?1, ?2, ?3, ?4) RETURNING id

-- name: list_audits
SELECT id, executed_at, action, events, summary_json FROM brant._brant_inbox_audits
WHERE id < ?1 ORDER BY id DESC LIMIT ?2

-- name: is_erased
SELECT erased_at, body_sha256, body_bytes FROM brant._brant_inbox_erased WHERE event_id = ?1

-- Oldest first, as they shall run.
-- name: event_ids_of_status
SELECT e.id FROM brant.knocker_events AS e
WHERE CAST(?6 AS text) IS NULL AND e.status = ?7 AND e.id > ?1 AND {{range_filters}}
ORDER BY e.id LIMIT ?5

-- name: event_ids_of_both
SELECT e.id FROM brant.knocker_events AS e
WHERE {{of_endpoint}} AND e.status = ?7 AND e.id > ?1 AND {{range_filters}}
ORDER BY e.id LIMIT ?5

-- fragment: range_filters
(CAST(?2 AS text) IS NULL OR e.event_type = CAST(?2 AS text))
AND (CAST(?3 AS bigint) IS NULL OR e.received_at >= CAST(?3 AS bigint))
AND (CAST(?4 AS bigint) IS NULL OR e.received_at < CAST(?4 AS bigint))

-- name: add_to_audit
UPDATE brant._brant_inbox_audits SET events = events + ?2 WHERE id = ?1
