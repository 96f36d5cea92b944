-- Made in this order, each if it is missing. The knocker_* tables are Knocker's own, column by column.

-- name: make_10_endpoints
CREATE TABLE IF NOT EXISTS knocker_endpoints (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    path TEXT NOT NULL UNIQUE,
    provider TEXT,
    enabled INTEGER NOT NULL DEFAULT 1,
    created_at INTEGER NOT NULL DEFAULT (unixepoch())
)

-- name: make_11_events
CREATE TABLE IF NOT EXISTS knocker_events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    endpoint_id INTEGER NOT NULL REFERENCES knocker_endpoints (id),
    received_at INTEGER NOT NULL DEFAULT (unixepoch()),
    provider_event_id TEXT,
    provider_delivery_id TEXT,
    event_type TEXT,
    method TEXT NOT NULL,
    headers_json TEXT NOT NULL,
    body_blob BLOB NOT NULL,
    query_json TEXT NOT NULL,
    dedupe_key TEXT,
    status TEXT NOT NULL CHECK (status IN ('received', 'processing', 'handled', 'failed', 'dead', 'ignored')),
    attempt_count INTEGER NOT NULL DEFAULT 0,
    handled_at INTEGER,
    last_error TEXT
)

-- name: make_12_deliveries
CREATE TABLE IF NOT EXISTS knocker_deliveries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    endpoint_id INTEGER NOT NULL REFERENCES knocker_endpoints (id),
    event_id INTEGER REFERENCES knocker_events (id),
    received_at INTEGER NOT NULL DEFAULT (unixepoch()),
    provider_event_id TEXT,
    provider_delivery_id TEXT,
    event_type TEXT,
    method TEXT NOT NULL,
    headers_json TEXT NOT NULL,
    body_blob BLOB NOT NULL,
    query_json TEXT NOT NULL,
    signature_valid INTEGER,
    signature_error TEXT,
    dedupe_key TEXT
)

-- name: make_13_attempts
CREATE TABLE IF NOT EXISTS knocker_attempts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id INTEGER NOT NULL REFERENCES knocker_events (id) ON DELETE CASCADE,
    attempted_at INTEGER NOT NULL DEFAULT (unixepoch()),
    outcome TEXT NOT NULL,
    error TEXT,
    duration_ms INTEGER NOT NULL
)

-- name: make_14_prune_audits
CREATE TABLE IF NOT EXISTS knocker_prune_audits (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    queue_name TEXT NOT NULL,
    executed_at INTEGER NOT NULL DEFAULT (unixepoch()),
    events_pruned INTEGER,
    deliveries_pruned INTEGER,
    attempts_pruned INTEGER,
    live_jobs_pruned INTEGER,
    summary_json TEXT NOT NULL
)

-- name: make_20_events_key
CREATE UNIQUE INDEX IF NOT EXISTS knocker_events_dedupe
    ON knocker_events (endpoint_id, dedupe_key) WHERE dedupe_key IS NOT NULL

-- name: make_21_events_status
CREATE INDEX IF NOT EXISTS knocker_events_status ON knocker_events (status, endpoint_id, event_type, id)

-- name: make_22_deliveries_event
CREATE INDEX IF NOT EXISTS knocker_deliveries_event ON knocker_deliveries (event_id, id)

-- name: make_23_deliveries_endpoint
CREATE INDEX IF NOT EXISTS knocker_deliveries_endpoint ON knocker_deliveries (endpoint_id, received_at, id)

-- name: make_24_attempts_event
CREATE INDEX IF NOT EXISTS knocker_attempts_event ON knocker_attempts (event_id, id)

-- name: make_25_prune_audits_kind
CREATE INDEX IF NOT EXISTS knocker_prune_audits_kind
    ON knocker_prune_audits (kind, executed_at DESC, id DESC)

-- name: make_30_events_of_status
CREATE INDEX IF NOT EXISTS _brant_inbox_events_status ON knocker_events (status, id)

-- name: make_31_events_of_endpoint
CREATE INDEX IF NOT EXISTS _brant_inbox_events_endpoint ON knocker_events (endpoint_id, id)

-- name: make_32_events_of_both
CREATE INDEX IF NOT EXISTS _brant_inbox_events_both ON knocker_events (endpoint_id, status, id)

-- name: make_33_events_by_age
CREATE INDEX IF NOT EXISTS _brant_inbox_events_age ON knocker_events (endpoint_id, status, received_at, id)

-- name: make_34_deliveries_of_endpoint
CREATE INDEX IF NOT EXISTS _brant_inbox_deliveries_endpoint ON knocker_deliveries (endpoint_id, id)

-- With their sizes, so that counting them reads no bodies.
-- name: make_35_orphans
CREATE INDEX IF NOT EXISTS _brant_inbox_orphans
    ON knocker_deliveries (endpoint_id, id, length(body_blob)) WHERE event_id IS NULL

-- What other programs enqueued by hand need not be JSON. IS, since with = every statement on a queue whose name is bound
-- would be prepared anew for each run: it might be this one.
-- name: make_36_live_jobs
CREATE INDEX IF NOT EXISTS _brant_inbox_live
    ON _honker_live (CASE WHEN json_valid(payload) THEN json_extract(payload, '$.event_id') END)
    WHERE queue IS 'knocker.events'

-- name: make_37_dead_jobs
CREATE INDEX IF NOT EXISTS _brant_inbox_dead
    ON _honker_dead (CASE WHEN json_valid(payload) THEN json_extract(payload, '$.event_id') END)
    WHERE queue IS 'knocker.events'

-- The keys of events that are gone, so that a late redelivery of one is still known.
-- name: make_40_tombstones
CREATE TABLE IF NOT EXISTS _brant_inbox_tombstones (
    endpoint_id INTEGER NOT NULL,
    dedupe_key TEXT NOT NULL,
    event_id INTEGER NOT NULL,
    pruned_at INTEGER NOT NULL,
    PRIMARY KEY (endpoint_id, dedupe_key)
) WITHOUT ROWID

-- name: make_41_tombstones_by_age
CREATE INDEX IF NOT EXISTS _brant_inbox_tombstones_age ON _brant_inbox_tombstones (endpoint_id, pruned_at)

-- The further events of a delivery that brought several.
-- name: make_42_batches
CREATE TABLE IF NOT EXISTS _brant_inbox_batches (
    delivery_id INTEGER NOT NULL,
    position INTEGER NOT NULL,
    event_id INTEGER NOT NULL,
    duplicate INTEGER NOT NULL,
    PRIMARY KEY (delivery_id, position)
) WITHOUT ROWID

-- name: make_43_batches_by_event
CREATE INDEX IF NOT EXISTS _brant_inbox_batches_event ON _brant_inbox_batches (event_id)

-- An open event of a key waits, or is the one of its key that has a job.
-- name: make_44_order
CREATE TABLE IF NOT EXISTS _brant_inbox_order (
    event_id INTEGER PRIMARY KEY,
    endpoint_id INTEGER NOT NULL,
    ordering_key TEXT NOT NULL,
    delivery_id INTEGER,
    open INTEGER NOT NULL DEFAULT 1
)

-- name: make_45_order_of_keys
CREATE INDEX IF NOT EXISTS _brant_inbox_order_key
    ON _brant_inbox_order (endpoint_id, ordering_key, event_id) WHERE open = 1

-- name: make_46_rejects
CREATE TABLE IF NOT EXISTS _brant_inbox_rejects (
    endpoint_id INTEGER NOT NULL,
    hour INTEGER NOT NULL,
    status INTEGER NOT NULL,
    reason TEXT NOT NULL,
    count INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    PRIMARY KEY (endpoint_id, hour, status, reason)
) WITHOUT ROWID

-- name: make_47_audits
CREATE TABLE IF NOT EXISTS _brant_inbox_audits (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    executed_at INTEGER NOT NULL,
    action TEXT NOT NULL,
    events INTEGER NOT NULL,
    summary_json TEXT NOT NULL
)

-- name: make_48_erased
CREATE TABLE IF NOT EXISTS _brant_inbox_erased (
    event_id INTEGER PRIMARY KEY,
    erased_at INTEGER NOT NULL,
    body_sha256 TEXT NOT NULL,
    body_bytes INTEGER NOT NULL
)

-- As older versions made it.
-- name: make_50_no_older_trigger
DROP TRIGGER IF EXISTS _brant_inbox_dead_in_step

-- Whoever makes a dead letter of an event's job, in whatever language, in the same commit the event says so, those who
-- listen are told, and the next event of its key gets a job. Where the inbox itself has done all that, nothing is left
-- to do here. The plus takes the column's type away, which would keep the index on the payloads from being used.
-- name: make_51_dead_in_step
CREATE TRIGGER _brant_inbox_dead_in_step AFTER INSERT ON _honker_dead
WHEN NEW.queue = 'knocker.events' AND json_valid(NEW.payload)
BEGIN
    INSERT INTO knocker_attempts (event_id, attempted_at, outcome, error, duration_ms)
    SELECT id, NEW.died_at, 'dead', COALESCE(NEW.last_error, 'the job became a dead letter'), 0
    FROM knocker_events
    WHERE id = json_extract(NEW.payload, '$.event_id') AND status IN ('received', 'processing', 'failed');
    INSERT INTO _honker_notifications (channel, payload, created_at)
    SELECT
        'brant.inbox.dead',
        json_object(
            'event_id', e.id, 'endpoint', n.name, 'event_type', e.event_type,
            'error', COALESCE(substr(NEW.last_error, 1, 2000), 'the job became a dead letter')
        ),
        NEW.died_at
    FROM knocker_events AS e JOIN knocker_endpoints AS n ON n.id = e.endpoint_id
    WHERE e.id = json_extract(NEW.payload, '$.event_id') AND e.status IN ('received', 'processing', 'failed');
    UPDATE knocker_events
    SET status = 'dead',
        attempt_count = NEW.attempts,
        last_error = COALESCE(NEW.last_error, 'the job became a dead letter')
    WHERE id = json_extract(NEW.payload, '$.event_id') AND status IN ('received', 'processing', 'failed');
    INSERT INTO _honker_live (queue, payload, run_at, max_attempts, created_at)
    SELECT
        'knocker.events',
        CASE
            WHEN following.delivery_id IS NULL THEN json_object('event_id', following.event_id)
            ELSE json_object('event_id', following.event_id, 'delivery_id', following.delivery_id)
        END,
        NEW.died_at, max(NEW.max_attempts, 1), NEW.died_at
    FROM _brant_inbox_order AS own
    JOIN _brant_inbox_order AS following
        ON following.endpoint_id = own.endpoint_id AND following.ordering_key = own.ordering_key
    WHERE own.event_id = json_extract(NEW.payload, '$.event_id') AND own.open = 1
        AND following.open = 1 AND following.event_id <> own.event_id
        AND NOT EXISTS (
            SELECT 1 FROM _brant_inbox_order AS other
            JOIN _honker_live AS job
                ON CASE WHEN json_valid(job.payload) THEN json_extract(job.payload, '$.event_id') END = +other.event_id
            WHERE job.queue IS 'knocker.events' AND other.open = 1 AND other.event_id <> own.event_id
                AND other.endpoint_id = own.endpoint_id AND other.ordering_key = own.ordering_key
        )
    ORDER BY following.event_id LIMIT 1;
    UPDATE _brant_inbox_order SET open = 0 WHERE event_id = json_extract(NEW.payload, '$.event_id') AND open = 1;
END

-- Where the last that is made is as this version makes it, all are.
-- name: is_prepared
SELECT 1 AS found FROM sqlite_schema
WHERE type = 'trigger' AND name = '_brant_inbox_dead_in_step' AND instr(sql, '_honker_notifications')

-- name: has_events_table
SELECT 1 AS found FROM sqlite_schema WHERE type = 'table' AND name = 'knocker_events'

-- name: has_old_layout
SELECT 1 AS found FROM pragma_table_info('knocker_events') WHERE name = 'signature_valid'

-- Names of things that one transaction at a time may work on: in a file there is no other.
-- name: hold
SELECT json_array_length(?1) AS held
