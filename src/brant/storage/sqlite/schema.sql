-- Honker's tables, exactly: a file may be used by its bindings in other languages at the same time.

CREATE TABLE IF NOT EXISTS _honker_notifications (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    channel TEXT NOT NULL,
    payload TEXT NOT NULL,
    created_at INTEGER NOT NULL DEFAULT (unixepoch())
);
CREATE INDEX IF NOT EXISTS _honker_notifications_recent ON _honker_notifications (channel, id);

CREATE TABLE IF NOT EXISTS _honker_live (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue TEXT NOT NULL,
    payload TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending',
    priority INTEGER NOT NULL DEFAULT 0,
    run_at INTEGER NOT NULL DEFAULT (unixepoch()),
    worker_id TEXT,
    claim_expires_at INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL DEFAULT 3,
    created_at INTEGER NOT NULL DEFAULT (unixepoch()),
    expires_at INTEGER
);
CREATE INDEX IF NOT EXISTS _honker_live_claim
    ON _honker_live (queue, priority DESC, run_at, id) WHERE state IN ('pending', 'processing');
CREATE INDEX IF NOT EXISTS _honker_live_pending_deadline ON _honker_live (queue, run_at) WHERE state = 'pending';
CREATE INDEX IF NOT EXISTS _honker_live_processing_deadline
    ON _honker_live (queue, claim_expires_at) WHERE state = 'processing';

CREATE TABLE IF NOT EXISTS _honker_dead (
    id INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    payload TEXT NOT NULL,
    priority INTEGER NOT NULL DEFAULT 0,
    run_at INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL DEFAULT 0,
    last_error TEXT,
    created_at INTEGER NOT NULL DEFAULT (unixepoch()),
    died_at INTEGER NOT NULL DEFAULT (unixepoch())
);

CREATE TABLE IF NOT EXISTS _honker_locks (name TEXT PRIMARY KEY, owner TEXT NOT NULL, expires_at INTEGER NOT NULL);

CREATE TABLE IF NOT EXISTS _honker_rate_limits (
    name TEXT NOT NULL,
    window_start INTEGER NOT NULL,
    count INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (name, window_start)
);

CREATE TABLE IF NOT EXISTS _honker_scheduler_tasks (
    name TEXT PRIMARY KEY,
    queue TEXT NOT NULL,
    cron_expr TEXT NOT NULL,
    payload TEXT NOT NULL,
    priority INTEGER NOT NULL DEFAULT 0,
    expires_s INTEGER,
    next_fire_at INTEGER NOT NULL,
    enabled INTEGER NOT NULL DEFAULT 1,
    max_attempts INTEGER NOT NULL DEFAULT 3
);

CREATE TABLE IF NOT EXISTS _honker_results (
    job_id INTEGER PRIMARY KEY,
    value TEXT,
    created_at INTEGER NOT NULL DEFAULT (unixepoch()),
    expires_at INTEGER
);

CREATE TABLE IF NOT EXISTS _honker_stream (
    offset INTEGER PRIMARY KEY AUTOINCREMENT,
    topic TEXT NOT NULL,
    key TEXT,
    payload TEXT NOT NULL,
    created_at INTEGER NOT NULL DEFAULT (unixepoch())
);
CREATE INDEX IF NOT EXISTS _honker_stream_topic ON _honker_stream (topic, offset);

CREATE TABLE IF NOT EXISTS _honker_stream_consumers (
    name TEXT NOT NULL,
    topic TEXT NOT NULL,
    offset INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (name, topic)
);

-- Brant's own. Indexes first: they keep the cost of a claim flat, whatever else is in the table.

CREATE INDEX IF NOT EXISTS _brant_live_ready
    ON _honker_live (queue, priority DESC, run_at, id) WHERE state = 'pending';
CREATE INDEX IF NOT EXISTS _brant_live_exhausted
    ON _honker_live (queue, run_at) WHERE state = 'pending' AND attempts >= max_attempts;
CREATE INDEX IF NOT EXISTS _brant_live_expiring
    ON _honker_live (queue, expires_at) WHERE state = 'pending' AND expires_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS _brant_dead_queue ON _honker_dead (queue, id);
CREATE INDEX IF NOT EXISTS _brant_results_expiring ON _honker_results (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS _brant_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS _brant_queues (
    name TEXT PRIMARY KEY,
    paused INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    events INTEGER NOT NULL DEFAULT 0 CHECK (events IN (0, 1))
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS _brant_aliases (alias TEXT PRIMARY KEY, target TEXT NOT NULL) WITHOUT ROWID;

-- A unique key is held for as long as its job is live, and where it has expires_at, until then at least.
CREATE TABLE IF NOT EXISTS _brant_unique (
    queue TEXT NOT NULL,
    key TEXT NOT NULL,
    job_id INTEGER NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (queue, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS _brant_unique_job ON _brant_unique (job_id);
CREATE INDEX IF NOT EXISTS _brant_unique_expiring ON _brant_unique (expires_at) WHERE expires_at IS NOT NULL;

-- Why earlier attempts failed, for as long as the job is live or dead.
CREATE TABLE IF NOT EXISTS _brant_attempts (
    job_id INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    worker_id TEXT,
    error TEXT NOT NULL,
    failed_at INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS _brant_attempts_job ON _brant_attempts (job_id);

CREATE TABLE IF NOT EXISTS _brant_schedules (
    name TEXT PRIMARY KEY,
    tz TEXT,
    missed TEXT NOT NULL DEFAULT 'all' CHECK (missed IN ('skip', 'one', 'all')),
    last_fire_at INTEGER,
    error TEXT
) WITHOUT ROWID;

-- Triggers, so that these follow the job whoever deletes it: Brant, Honker or plain SQL.
-- A move to the dead inserts there before it deletes here, and a requeue the other way round.
CREATE TRIGGER IF NOT EXISTS _brant_live_gone AFTER DELETE ON _honker_live BEGIN
    DELETE FROM _brant_unique WHERE job_id = OLD.id AND expires_at IS NULL;
    DELETE FROM _brant_attempts
        WHERE job_id = OLD.id AND NOT EXISTS (SELECT 1 FROM _honker_dead WHERE id = OLD.id);
END;
CREATE TRIGGER IF NOT EXISTS _brant_dead_gone AFTER DELETE ON _honker_dead BEGIN
    DELETE FROM _brant_attempts
        WHERE job_id = OLD.id AND NOT EXISTS (SELECT 1 FROM _honker_live WHERE id = OLD.id);
END;

DROP VIEW IF EXISTS _honker_jobs;
CREATE VIEW _honker_jobs AS
    SELECT id, queue, payload, state, priority, run_at, worker_id, claim_expires_at, attempts, max_attempts,
        (SELECT error FROM _brant_attempts WHERE job_id = live.id ORDER BY rowid DESC LIMIT 1) AS last_error,
        created_at
    FROM _honker_live AS live
    UNION ALL
    SELECT id, queue, payload, 'dead', priority, run_at, NULL, NULL, attempts, max_attempts, last_error, created_at
    FROM _honker_dead;
