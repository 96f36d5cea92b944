CREATE TABLE IF NOT EXISTS brant._brant_meta (key text COLLATE "C" PRIMARY KEY, value text NOT NULL);

-- Names are compared by their bytes, as in a file, whatever the language of the database.
-- Small and hot: rows come, change twice and go. Room in the pages for the changes, and vacuum long before the dead
-- versions outnumber the live ones; but it never gives the end of the table back, since for that it would have to keep
-- everybody else out.
CREATE TABLE IF NOT EXISTS brant._honker_live (
    id bigint PRIMARY KEY DEFAULT brant._brant_take_ids(
        'brant._brant_job_ids', CAST(floor(extract(epoch FROM clock_timestamp()) * 1000000) AS bigint)
    ),
    queue text COLLATE "C" NOT NULL,
    payload text NOT NULL,
    state text NOT NULL DEFAULT 'pending',
    priority bigint NOT NULL DEFAULT 0,
    run_at double precision NOT NULL DEFAULT floor(extract(epoch FROM clock_timestamp())),
    worker_id text,
    claim_expires_at double precision,
    attempts bigint NOT NULL DEFAULT 0,
    max_attempts bigint NOT NULL DEFAULT 3,
    created_at double precision NOT NULL DEFAULT floor(extract(epoch FROM clock_timestamp())),
    expires_at double precision
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.1,
    autovacuum_analyze_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off
);
CREATE INDEX IF NOT EXISTS _brant_live_ready
    ON brant._honker_live (queue, priority DESC, run_at, id) WHERE state = 'pending';
CREATE INDEX IF NOT EXISTS _honker_live_pending_deadline ON brant._honker_live (queue, run_at) WHERE state = 'pending';
CREATE INDEX IF NOT EXISTS _honker_live_processing_deadline
    ON brant._honker_live (queue, claim_expires_at) WHERE state = 'processing';
CREATE INDEX IF NOT EXISTS _brant_live_exhausted
    ON brant._honker_live (queue, run_at) WHERE state = 'pending' AND attempts >= max_attempts;
CREATE INDEX IF NOT EXISTS _brant_live_expiring
    ON brant._honker_live (queue, expires_at) WHERE state = 'pending' AND expires_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS brant._honker_dead (
    id bigint PRIMARY KEY,
    queue text COLLATE "C" NOT NULL,
    payload text NOT NULL,
    priority bigint NOT NULL DEFAULT 0,
    run_at double precision NOT NULL DEFAULT 0,
    attempts bigint NOT NULL DEFAULT 0,
    max_attempts bigint NOT NULL DEFAULT 0,
    last_error text,
    created_at double precision NOT NULL DEFAULT floor(extract(epoch FROM clock_timestamp())),
    died_at double precision NOT NULL DEFAULT floor(extract(epoch FROM clock_timestamp()))
);
CREATE INDEX IF NOT EXISTS _brant_dead_queue ON brant._honker_dead (queue, id);

CREATE TABLE IF NOT EXISTS brant._brant_queues (
    name text COLLATE "C" PRIMARY KEY,
    paused smallint NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    events smallint NOT NULL DEFAULT 0 CHECK (events IN (0, 1))
);

CREATE TABLE IF NOT EXISTS brant._brant_aliases (alias text COLLATE "C" PRIMARY KEY, target text NOT NULL);

-- A unique key is held for as long as its job is live, and where it has expires_at, until then at least.
CREATE TABLE IF NOT EXISTS brant._brant_unique (
    queue text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    job_id bigint NOT NULL,
    expires_at double precision,
    PRIMARY KEY (queue, key)
);
CREATE INDEX IF NOT EXISTS _brant_unique_job ON brant._brant_unique (job_id);
CREATE INDEX IF NOT EXISTS _brant_unique_expiring ON brant._brant_unique (expires_at) WHERE expires_at IS NOT NULL;

-- Why earlier attempts failed, for as long as the job is live or dead; numbered in the order of their coming.
CREATE TABLE IF NOT EXISTS brant._brant_attempts (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id bigint NOT NULL,
    attempt bigint NOT NULL,
    worker_id text,
    error text NOT NULL,
    failed_at double precision NOT NULL
);
CREATE INDEX IF NOT EXISTS _brant_attempts_job ON brant._brant_attempts (job_id, number);

-- For people.
CREATE OR REPLACE VIEW brant.jobs AS
    SELECT id, queue, payload, state, priority, to_timestamp(run_at) AS run_at, worker_id,
        to_timestamp(claim_expires_at) AS claim_expires_at, attempts, max_attempts,
        (SELECT error FROM brant._brant_attempts WHERE job_id = live.id ORDER BY number DESC LIMIT 1) AS last_error,
        to_timestamp(created_at) AS created_at, to_timestamp(expires_at) AS expires_at
    FROM brant._honker_live AS live;
CREATE OR REPLACE VIEW brant.dead_jobs AS
    SELECT id, queue, payload, priority, to_timestamp(run_at) AS run_at, attempts, max_attempts, last_error,
        to_timestamp(created_at) AS created_at, to_timestamp(died_at) AS died_at
    FROM brant._honker_dead;
CREATE OR REPLACE VIEW brant._honker_jobs AS
    SELECT id, queue, payload, state, priority, run_at, worker_id, claim_expires_at, attempts, max_attempts,
        (SELECT error FROM brant._brant_attempts WHERE job_id = live.id ORDER BY number DESC LIMIT 1) AS last_error,
        created_at
    FROM brant._honker_live AS live
    UNION ALL
    SELECT id, queue, payload, 'dead', priority, run_at, NULL, NULL, attempts, max_attempts, last_error, created_at
    FROM brant._honker_dead;
