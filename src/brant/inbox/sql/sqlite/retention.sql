-- When an event came to rest: never before it was received, so the index by age finds all that are old enough.
-- fragment: settled_at
COALESCE(e.handled_at, (SELECT max(a.attempted_at) FROM knocker_attempts AS a WHERE a.event_id = e.id), e.received_at)

-- name: prunable_events
SELECT e.id, e.dedupe_key FROM knocker_events AS e
WHERE e.endpoint_id = ?1 AND e.status = ?2 AND e.received_at < ?3 AND {{settled_at}} < ?3
ORDER BY e.received_at, e.id LIMIT ?4

-- name: erasable_events
SELECT e.id, e.body_blob AS body FROM knocker_events AS e
WHERE e.endpoint_id = ?1 AND e.status = ?2 AND e.received_at < ?3 AND {{settled_at}} < ?3
    AND NOT EXISTS (SELECT 1 FROM _brant_inbox_erased AS x WHERE x.event_id = e.id)
ORDER BY e.received_at, e.id LIMIT ?4

-- As it is when nobody else is at work on it, nor stores a redelivery; and until this transaction ends.
-- name: event_to_erase
SELECT id, status, body_blob AS body FROM knocker_events WHERE id = ?1

-- name: count_prunable_events
SELECT count(*) AS count FROM knocker_events AS e
WHERE e.endpoint_id = ?1 AND e.status = ?3 AND e.received_at < ?2 AND {{settled_at}} < ?2

-- name: count_erasable_events
SELECT count(*) AS count FROM knocker_events AS e
WHERE e.endpoint_id = ?1 AND e.status = ?3 AND e.received_at < ?2 AND {{settled_at}} < ?2
    AND NOT EXISTS (SELECT 1 FROM _brant_inbox_erased AS x WHERE x.event_id = e.id)

-- name: count_old_orphans
SELECT count(*) AS count FROM knocker_deliveries
WHERE endpoint_id = ?1 AND event_id IS NULL AND received_at < ?2

-- name: bury
INSERT OR REPLACE INTO _brant_inbox_tombstones (endpoint_id, dedupe_key, event_id, pruned_at)
SELECT endpoint_id, dedupe_key, id, ?2 FROM knocker_events WHERE id = ?1 AND dedupe_key IS NOT NULL

-- A delivery of several events stays for as long as one of them does.
-- name: hand_on_batch_delivery
UPDATE knocker_deliveries
SET event_id = (
    SELECT b.event_id FROM _brant_inbox_batches AS b JOIN knocker_events AS e ON e.id = b.event_id
    WHERE b.delivery_id = knocker_deliveries.id AND b.event_id <> ?1
    ORDER BY b.position LIMIT 1
)
WHERE event_id = ?1 AND EXISTS (
    SELECT 1 FROM _brant_inbox_batches AS b JOIN knocker_events AS e ON e.id = b.event_id
    WHERE b.delivery_id = knocker_deliveries.id AND b.event_id <> ?1
)

-- name: delete_batch_items
DELETE FROM _brant_inbox_batches WHERE event_id = ?1

-- Of an array of deliveries.
-- name: delete_batches
DELETE FROM _brant_inbox_batches WHERE delivery_id IN (SELECT value FROM json_each(?1))

-- name: delete_deliveries
DELETE FROM knocker_deliveries WHERE event_id = ?1 RETURNING id

-- name: delete_attempts
DELETE FROM knocker_attempts WHERE event_id = ?1 RETURNING id

-- name: delete_order
DELETE FROM _brant_inbox_order WHERE event_id = ?1

-- name: delete_erased
DELETE FROM _brant_inbox_erased WHERE event_id = ?1

-- name: delete_event
DELETE FROM knocker_events WHERE id = ?1

-- name: erase_event
UPDATE knocker_events SET body_blob = x'', headers_json = '{}', query_json = '{}' WHERE id = ?1

-- Those that still have some.
-- name: erase_deliveries
UPDATE knocker_deliveries SET body_blob = x'', headers_json = '{}', query_json = '{}'
WHERE id IN (
        SELECT id FROM knocker_deliveries WHERE event_id = ?1
        UNION SELECT delivery_id FROM _brant_inbox_batches WHERE event_id = ?1
    )
    AND (length(body_blob) > 0 OR headers_json <> '{}' OR query_json <> '{}')
RETURNING id

-- name: note_erased
INSERT OR REPLACE INTO _brant_inbox_erased (event_id, erased_at, body_sha256, body_bytes) VALUES (?1, ?2, ?3, ?4)

-- name: delete_old_orphans
DELETE FROM knocker_deliveries WHERE id IN (
    SELECT id FROM knocker_deliveries
    WHERE endpoint_id = ?1 AND event_id IS NULL AND received_at < ?2
    ORDER BY id LIMIT ?3
)
RETURNING id

-- name: delete_old_tombstones
DELETE FROM _brant_inbox_tombstones
WHERE (endpoint_id, dedupe_key) IN (
    SELECT endpoint_id, dedupe_key FROM _brant_inbox_tombstones
    WHERE endpoint_id = ?1 AND pruned_at < ?2 ORDER BY pruned_at LIMIT ?3
)
RETURNING event_id

-- name: delete_old_rejects
DELETE FROM _brant_inbox_rejects WHERE endpoint_id = ?1 AND hour < ?2 RETURNING hour

-- name: insert_prune_audit
INSERT INTO knocker_prune_audits (
    kind, queue_name, executed_at, events_pruned, deliveries_pruned, attempts_pruned, live_jobs_pruned, summary_json
)
VALUES (?1, 'knocker.events', ?2, ?3, ?4, ?5, ?6, ?7)

-- name: list_prune_audits
SELECT id, kind, queue_name, executed_at, events_pruned, deliveries_pruned, attempts_pruned, live_jobs_pruned,
    summary_json
FROM knocker_prune_audits
WHERE (?1 IS NULL OR kind = ?1) AND (?2 IS NULL OR executed_at >= ?2)
ORDER BY executed_at DESC, id DESC LIMIT ?3
