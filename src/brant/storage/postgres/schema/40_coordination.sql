CREATE TABLE IF NOT EXISTS brant._honker_locks (
    name text COLLATE "C" PRIMARY KEY,
    owner text NOT NULL,
    expires_at double precision NOT NULL
);

CREATE TABLE IF NOT EXISTS brant._honker_rate_limits (
    name text COLLATE "C" NOT NULL,
    window_start bigint NOT NULL,
    count bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (name, window_start)
);

CREATE TABLE IF NOT EXISTS brant._honker_results (
    job_id bigint PRIMARY KEY,
    value text,
    created_at double precision NOT NULL DEFAULT floor(brant._brant_now()),
    expires_at double precision
);
CREATE INDEX IF NOT EXISTS _brant_results_expiring ON brant._honker_results (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS brant._honker_scheduler_tasks (
    name text COLLATE "C" PRIMARY KEY,
    queue text COLLATE "C" NOT NULL,
    cron_expr text NOT NULL,
    payload text NOT NULL,
    priority bigint NOT NULL DEFAULT 0,
    expires_s double precision,
    next_fire_at double precision NOT NULL,
    enabled smallint NOT NULL DEFAULT 1,
    max_attempts bigint NOT NULL DEFAULT 3
);

CREATE TABLE IF NOT EXISTS brant._brant_schedules (
    name text COLLATE "C" PRIMARY KEY,
    tz text,
    missed text NOT NULL DEFAULT 'all' CHECK (missed IN ('skip', 'one', 'all')),
    last_fire_at double precision,
    error text
);
