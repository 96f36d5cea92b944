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

-- The limit of a key of a queue; under the key '', of the queue as a whole. wake_at: when to look whether jobs that were
-- held back have room. forget_at: when a key without jobs is of no more use.
CREATE TABLE IF NOT EXISTS _brant_limits (
    queue TEXT NOT NULL,
    key TEXT NOT NULL,
    max_running INTEGER,
    max_starts INTEGER,
    per_s INTEGER,
    wake_at INTEGER,
    forget_at INTEGER,
    PRIMARY KEY (queue, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS _brant_limits_waking ON _brant_limits (queue, wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS _brant_limits_idle ON _brant_limits (forget_at) WHERE forget_at IS NOT NULL;

-- The limited jobs, live and dead. One that its limit holds back is far in the future in _honker_live, so that no claim
-- walks it and no other binding runs it; its own time is here meanwhile.
CREATE TABLE IF NOT EXISTS _brant_limited (
    job_id INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    key TEXT NOT NULL,
    running INTEGER NOT NULL DEFAULT 0,
    priority INTEGER NOT NULL DEFAULT 0,
    run_at INTEGER
);
CREATE INDEX IF NOT EXISTS _brant_limited_key ON _brant_limited (queue, key, running);
CREATE INDEX IF NOT EXISTS _brant_limited_held_back
    ON _brant_limited (queue, key, priority DESC, run_at, job_id) WHERE run_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS _brant_limited_oldest ON _brant_limited (queue, key, run_at) WHERE run_at IS NOT NULL;

-- When the last max_starts jobs of a key were started, numbered in that order.
CREATE TABLE IF NOT EXISTS _brant_starts (
    queue TEXT NOT NULL,
    key TEXT NOT NULL,
    number INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    PRIMARY KEY (queue, key, number)
) WITHOUT ROWID;

-- A batch: how many jobs it has, how they ended, and the job that is enqueued when all have. `then_path` is where that
-- job's payload gets the numbers. `settled_at` is null when not Brant but another program settled it.
CREATE TABLE IF NOT EXISTS _brant_batches (
    id INTEGER PRIMARY KEY,
    note TEXT NOT NULL,
    then_queue TEXT,
    then_payload TEXT,
    then_path TEXT,
    then_priority INTEGER,
    then_max_attempts INTEGER,
    then_expires_s INTEGER,
    then_job_id INTEGER,
    total INTEGER NOT NULL DEFAULT 0,
    succeeded INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    sealed INTEGER NOT NULL DEFAULT 0 CHECK (sealed IN (0, 1)),
    settled INTEGER NOT NULL DEFAULT 0 CHECK (settled IN (0, 1)),
    created_at INTEGER NOT NULL,
    settled_at INTEGER,
    keep_s INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS _brant_batches_recent ON _brant_batches (created_at, id);

-- How a member stands: 'pending', 'succeeded', 'dead' or 'cancelled'; 'cancelling' and 'taking' say, within the
-- transaction that deletes the job, what its deletion means.
CREATE TABLE IF NOT EXISTS _brant_batch_jobs (
    job_id INTEGER PRIMARY KEY,
    batch_id INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending'
);
CREATE INDEX IF NOT EXISTS _brant_batch_jobs_batch ON _brant_batch_jobs (batch_id);

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

-- Limits. A job runs for as long as it is leased, whoever claims and settles it.
CREATE TRIGGER IF NOT EXISTS _brant_limited_state AFTER UPDATE OF state ON _honker_live
WHEN OLD.state IS NOT NEW.state AND EXISTS (SELECT 1 FROM _brant_limited WHERE job_id = NEW.id) BEGIN
    UPDATE _brant_limited SET running = NEW.state = 'processing', run_at = NULL WHERE job_id = NEW.id;
END;
CREATE TRIGGER IF NOT EXISTS _brant_limited_gone AFTER DELETE ON _honker_live
WHEN EXISTS (SELECT 1 FROM _brant_limited WHERE job_id = OLD.id) BEGIN
    UPDATE _brant_limited SET running = 0, run_at = NULL WHERE job_id = OLD.id;
    DELETE FROM _brant_limited WHERE job_id = OLD.id AND NOT EXISTS (SELECT 1 FROM _honker_dead WHERE id = OLD.id);
END;
CREATE TRIGGER IF NOT EXISTS _brant_limited_dead_gone AFTER DELETE ON _honker_dead
WHEN EXISTS (SELECT 1 FROM _brant_limited WHERE job_id = OLD.id) BEGIN
    DELETE FROM _brant_limited WHERE job_id = OLD.id AND NOT EXISTS (SELECT 1 FROM _honker_live WHERE id = OLD.id);
END;
CREATE TRIGGER IF NOT EXISTS _brant_limited_left AFTER UPDATE OF queue ON _honker_live
WHEN OLD.queue IS NOT NEW.queue AND EXISTS (SELECT 1 FROM _brant_limited WHERE job_id = NEW.id) BEGIN
    UPDATE _honker_live
        SET run_at = coalesce((SELECT run_at FROM _brant_limited WHERE job_id = NEW.id), run_at) WHERE id = NEW.id;
    UPDATE _brant_limited SET running = 0, run_at = NULL WHERE job_id = NEW.id;
    DELETE FROM _brant_limited WHERE job_id = NEW.id;
END;
-- Whoever was not held back leaves room to one that was.
CREATE TRIGGER IF NOT EXISTS _brant_limit_freed AFTER UPDATE OF running ON _brant_limited
WHEN NEW.running = 0 AND OLD.run_at IS NULL BEGIN
    UPDATE _brant_limits SET wake_at = 0
        WHERE queue = OLD.queue AND key = OLD.key AND EXISTS (
            SELECT 1 FROM _brant_limited INDEXED BY _brant_limited_held_back
            WHERE queue = OLD.queue AND key = OLD.key AND run_at IS NOT NULL
        );
END;
-- A key without jobs: its starts still count until they are out of the window.
CREATE TRIGGER IF NOT EXISTS _brant_limit_unused AFTER DELETE ON _brant_limited
WHEN NOT EXISTS (SELECT 1 FROM _brant_limited WHERE queue = OLD.queue AND key = OLD.key) BEGIN
    DELETE FROM _brant_limits WHERE queue = OLD.queue AND key = OLD.key AND max_starts IS NULL;
    UPDATE _brant_limits SET wake_at = NULL, forget_at = per_s + coalesce((
            SELECT started_at FROM _brant_starts WHERE queue = OLD.queue AND key = OLD.key ORDER BY number DESC LIMIT 1
        ), 0)
        WHERE queue = OLD.queue AND key = OLD.key;
END;
CREATE TRIGGER IF NOT EXISTS _brant_limit_gone AFTER DELETE ON _brant_limits BEGIN
    DELETE FROM _brant_starts WHERE queue = OLD.queue AND key = OLD.key;
END;

-- Counting, from the job to its batch. A job that is deleted while nobody has claimed it was cancelled.
CREATE TRIGGER IF NOT EXISTS _brant_batch_job_gone AFTER DELETE ON _honker_live
WHEN EXISTS (
    SELECT 1 FROM _brant_batch_jobs WHERE job_id = OLD.id AND state IN ('pending', 'cancelling', 'taking')
) BEGIN
    UPDATE _brant_batch_jobs
    SET state = CASE
        WHEN EXISTS (SELECT 1 FROM _honker_dead WHERE id = OLD.id) THEN 'dead'
        WHEN state = 'cancelling' OR (state = 'pending' AND OLD.state = 'pending') THEN 'cancelled'
        ELSE 'succeeded'
    END
    WHERE job_id = OLD.id;
END;
CREATE TRIGGER IF NOT EXISTS _brant_batch_job_requeued AFTER DELETE ON _honker_dead
WHEN EXISTS (SELECT 1 FROM _brant_batch_jobs WHERE job_id = OLD.id AND state = 'dead')
    AND EXISTS (SELECT 1 FROM _honker_live WHERE id = OLD.id) BEGIN
    UPDATE _brant_batch_jobs SET state = 'pending' WHERE job_id = OLD.id;
END;
CREATE TRIGGER IF NOT EXISTS _brant_batch_counted AFTER UPDATE OF state ON _brant_batch_jobs BEGIN
    UPDATE _brant_batches
    SET succeeded = succeeded + (NEW.state = 'succeeded') - (OLD.state = 'succeeded'),
        dead = dead + (NEW.state = 'dead') - (OLD.state = 'dead'),
        cancelled = cancelled + (NEW.state = 'cancelled') - (OLD.state = 'cancelled')
    WHERE id = NEW.batch_id AND settled = 0;
END;
CREATE TRIGGER IF NOT EXISTS _brant_batch_settled AFTER UPDATE OF sealed, succeeded, dead, cancelled ON _brant_batches
WHEN NEW.sealed AND NOT NEW.settled AND NEW.total = NEW.succeeded + NEW.dead + NEW.cancelled BEGIN
    INSERT INTO _honker_live (queue, payload, priority, max_attempts, expires_at)
    SELECT NEW.then_queue,
        json_set(NEW.then_payload, NEW.then_path, json_object(
            'id', NEW.id, 'note', json(NEW.note), 'total', NEW.total,
            'succeeded', NEW.succeeded, 'dead', NEW.dead, 'cancelled', NEW.cancelled
        )),
        NEW.then_priority, NEW.then_max_attempts, unixepoch() + NEW.then_expires_s
    WHERE NEW.then_queue IS NOT NULL;
    UPDATE _brant_batches
    SET settled = 1, then_job_id = iif(NEW.then_queue IS NULL, NULL, last_insert_rowid())
    WHERE id = NEW.id;
END;
CREATE TRIGGER IF NOT EXISTS _brant_batch_gone AFTER DELETE ON _brant_batches BEGIN
    DELETE FROM _brant_batch_jobs WHERE batch_id = OLD.id;
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
