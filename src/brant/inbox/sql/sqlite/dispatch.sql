-- name: event_to_run
SELECT
    e.id, n.name AS endpoint, e.endpoint_id, e.received_at, e.provider_event_id, e.provider_delivery_id, e.event_type,
    e.method, e.headers_json, e.query_json, e.dedupe_key, e.status, e.attempt_count, e.handled_at, e.last_error,
    length(e.body_blob) AS body_bytes, e.body_blob AS body
FROM knocker_events AS e JOIN knocker_endpoints AS n ON n.id = e.endpoint_id
WHERE e.id = ?1

-- name: endpoint_of_event
SELECT n.name AS endpoint, e.event_type
FROM knocker_events AS e JOIN knocker_endpoints AS n ON n.id = e.endpoint_id
WHERE e.id = ?1

-- As it is when nobody else is at work on it, and until this transaction ends.
-- name: event_to_change
SELECT id, endpoint_id, status, attempt_count, last_error FROM knocker_events WHERE id = ?1

-- Nothing, where another job of the event was faster, or an operator.
-- name: mark_open_handled
UPDATE knocker_events SET status = 'handled', attempt_count = attempt_count + 1, handled_at = ?2, last_error = NULL
WHERE id = ?1 AND status NOT IN ('handled', 'ignored')
RETURNING id

-- name: mark_handled
UPDATE knocker_events SET status = 'handled', attempt_count = ?2, handled_at = ?3, last_error = NULL WHERE id = ?1

-- name: mark
UPDATE knocker_events SET status = ?2, attempt_count = attempt_count + ?3, last_error = ?4 WHERE id = ?1

-- name: insert_attempt
INSERT INTO knocker_attempts (event_id, attempted_at, outcome, error, duration_ms) VALUES (?1, ?2, ?3, ?4, ?5)

-- name: last_attempt_at
SELECT max(attempted_at) AS attempted_at FROM knocker_attempts WHERE event_id = ?1

-- name: reset_event
UPDATE knocker_events SET status = 'received', attempt_count = 0, handled_at = NULL, last_error = NULL WHERE id = ?1

-- name: live_jobs
SELECT id FROM _honker_live
WHERE queue IS 'knocker.events'
    AND CASE WHEN json_valid(payload) THEN json_extract(payload, '$.event_id') END = ?1

-- name: delete_dead_jobs
DELETE FROM _honker_dead
WHERE queue IS 'knocker.events'
    AND CASE WHEN json_valid(payload) THEN json_extract(payload, '$.event_id') END = ?1

-- name: open_order
INSERT INTO _brant_inbox_order (event_id, endpoint_id, ordering_key, delivery_id, open) VALUES (?1, ?2, ?3, NULL, 1)

-- name: reopen_order
UPDATE _brant_inbox_order SET open = 1, delivery_id = ?2 WHERE event_id = ?1 RETURNING endpoint_id, ordering_key

-- name: close_order
UPDATE _brant_inbox_order SET open = 0 WHERE event_id = ?1 RETURNING endpoint_id, ordering_key

-- name: order_of
SELECT endpoint_id, ordering_key, open FROM _brant_inbox_order WHERE event_id = ?1

-- Of an array of events.
-- name: orders_of
SELECT DISTINCT endpoint_id, ordering_key FROM _brant_inbox_order WHERE event_id IN (SELECT value FROM json_each(?1))

-- name: next_of_key
SELECT event_id, delivery_id FROM _brant_inbox_order
WHERE endpoint_id = ?1 AND ordering_key = ?2 AND open = 1
ORDER BY event_id LIMIT 1

-- The plus takes the column's type away, which would keep the index on the payloads from being used.
-- name: key_has_job
SELECT 1 AS found FROM _brant_inbox_order AS o
WHERE o.endpoint_id = ?1 AND o.ordering_key = ?2 AND o.open = 1
    AND EXISTS (
        SELECT 1 FROM _honker_live
        WHERE queue IS 'knocker.events'
            AND CASE WHEN json_valid(payload) THEN json_extract(payload, '$.event_id') END = +o.event_id
    )
ORDER BY o.event_id LIMIT 1

-- Those that nobody would ever run: no job, and none before them in their key that has one.
-- name: events_without_job
SELECT e.id FROM knocker_events AS e
WHERE e.status = ?1 AND e.id > ?2
    AND NOT EXISTS (
        SELECT 1 FROM _honker_live
        WHERE queue IS 'knocker.events'
            AND CASE WHEN json_valid(payload) THEN json_extract(payload, '$.event_id') END = +e.id
    )
ORDER BY e.id LIMIT ?3
