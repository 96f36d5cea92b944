-- name: upsert_endpoint
INSERT INTO brant.knocker_endpoints (name, path, provider, enabled, created_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (name) DO UPDATE SET path = excluded.path, provider = excluded.provider
RETURNING id, enabled

-- name: endpoint_of_path
SELECT name FROM brant.knocker_endpoints WHERE path = ?1

-- name: endpoint_row
SELECT id, name, path, provider, enabled, created_at FROM brant.knocker_endpoints WHERE name = ?1

-- name: endpoint_rows
SELECT id, name, path, provider, enabled, created_at FROM brant.knocker_endpoints ORDER BY name

-- name: set_enabled
UPDATE brant.knocker_endpoints SET enabled = ?2 WHERE name = ?1 RETURNING id

-- name: is_enabled
SELECT enabled FROM brant.knocker_endpoints WHERE id = ?1

-- Nothing is inserted, and nothing returned, when the key is known or the endpoint is paused.
-- name: insert_event
SELECT event.id
FROM brant.knocker_endpoints AS endpoint
CROSS JOIN LATERAL brant._brant_inbox_insert_event(
    ?1, ?2, CAST(?3 AS text), CAST(?4 AS text), CAST(?5 AS text), ?6, ?7, ?8, ?9, CAST(?10 AS text), ?11,
    CAST(?12 AS text)
) AS event (id)
WHERE endpoint.id = ?1 AND endpoint.enabled = 1 AND event.id IS NOT NULL

-- The event stays until this transaction ends. Nothing, where it has just gone: the next look finds its key.
-- name: known_event
SELECT id, 1 AS present FROM (
    SELECT id FROM brant.knocker_events WHERE endpoint_id = ?1 AND dedupe_key = ?2 FOR KEY SHARE
) AS held
UNION ALL
SELECT event_id, 0 FROM brant._brant_inbox_tombstones WHERE endpoint_id = ?1 AND dedupe_key = ?2
LIMIT 1

-- name: insert_delivery
INSERT INTO brant.knocker_deliveries (
    endpoint_id, event_id, received_at, provider_event_id, provider_delivery_id, event_type, method, headers_json,
    body_blob, query_json, signature_valid, signature_error, dedupe_key
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
RETURNING id

-- name: note_batch_item
INSERT INTO brant._brant_inbox_batches (delivery_id, position, event_id, duplicate)
VALUES (?1, ?2, ?3, CAST(CAST(?4 AS boolean) AS integer))

-- name: orphan_totals
SELECT count(*) AS count, CAST(COALESCE(sum(length(body_blob)), 0) AS bigint) AS bytes FROM brant.knocker_deliveries
WHERE endpoint_id = ?1 AND event_id IS NULL

-- name: oldest_orphans
SELECT id, length(body_blob) AS bytes FROM brant.knocker_deliveries
WHERE endpoint_id = ?1 AND event_id IS NULL
ORDER BY id LIMIT ?2

-- name: delete_delivery
DELETE FROM brant.knocker_deliveries WHERE id = ?1

-- name: reasons_of_hour
SELECT count(*) AS count FROM brant._brant_inbox_rejects WHERE endpoint_id = ?1 AND hour = ?2

-- name: count_reject
INSERT INTO brant._brant_inbox_rejects AS known (endpoint_id, hour, status, reason, count, last_at)
VALUES (?1, ?2, ?3, ?4, 1, ?5)
ON CONFLICT (endpoint_id, hour, status, reason)
DO UPDATE SET count = known.count + 1, last_at = GREATEST(known.last_at, excluded.last_at)
