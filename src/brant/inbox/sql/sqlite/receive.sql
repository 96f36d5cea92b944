-- name: upsert_endpoint
INSERT INTO knocker_endpoints (name, path, provider, enabled, created_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (name) DO UPDATE SET path = excluded.path, provider = excluded.provider
RETURNING id, enabled

-- name: endpoint_of_path
SELECT name FROM knocker_endpoints WHERE path = ?1

-- name: endpoint_row
SELECT id, name, path, provider, enabled, created_at FROM knocker_endpoints WHERE name = ?1

-- name: endpoint_rows
SELECT id, name, path, provider, enabled, created_at FROM knocker_endpoints ORDER BY name

-- name: set_enabled
UPDATE knocker_endpoints SET enabled = ?2 WHERE name = ?1 RETURNING id

-- name: is_enabled
SELECT enabled FROM knocker_endpoints WHERE id = ?1

-- Nothing is inserted, and nothing returned, when the key is known or the endpoint is paused.
-- name: insert_event
INSERT INTO knocker_events (
    endpoint_id, received_at, provider_event_id, provider_delivery_id, event_type, method, headers_json, body_blob,
    query_json, dedupe_key, status, last_error
)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12
WHERE (SELECT enabled FROM knocker_endpoints WHERE id = ?1)
    AND NOT EXISTS (SELECT 1 FROM _brant_inbox_tombstones WHERE endpoint_id = ?1 AND dedupe_key = ?10)
ON CONFLICT DO NOTHING
RETURNING id

-- name: known_event
SELECT id, 1 AS present FROM knocker_events WHERE endpoint_id = ?1 AND dedupe_key = ?2
UNION ALL
SELECT event_id, 0 FROM _brant_inbox_tombstones WHERE endpoint_id = ?1 AND dedupe_key = ?2
LIMIT 1

-- name: insert_delivery
INSERT INTO knocker_deliveries (
    endpoint_id, event_id, received_at, provider_event_id, provider_delivery_id, event_type, method, headers_json,
    body_blob, query_json, signature_valid, signature_error, dedupe_key
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
RETURNING id

-- name: note_batch_item
INSERT INTO _brant_inbox_batches (delivery_id, position, event_id, duplicate) VALUES (?1, ?2, ?3, ?4)

-- name: orphan_totals
SELECT count(*) AS count, COALESCE(sum(length(body_blob)), 0) AS bytes FROM knocker_deliveries
WHERE endpoint_id = ?1 AND event_id IS NULL

-- name: oldest_orphans
SELECT id, length(body_blob) AS bytes FROM knocker_deliveries
WHERE endpoint_id = ?1 AND event_id IS NULL
ORDER BY id LIMIT ?2

-- name: delete_delivery
DELETE FROM knocker_deliveries WHERE id = ?1

-- name: reasons_of_hour
SELECT count(*) AS count FROM _brant_inbox_rejects WHERE endpoint_id = ?1 AND hour = ?2

-- name: count_reject
INSERT INTO _brant_inbox_rejects (endpoint_id, hour, status, reason, count, last_at) VALUES (?1, ?2, ?3, ?4, 1, ?5)
ON CONFLICT DO UPDATE SET count = count + 1, last_at = excluded.last_at
