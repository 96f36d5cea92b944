-- The limit of a key of a queue; under the key '', of the queue as a whole. wake_at: when to look whether jobs that were
-- held back have room. forget_at: when a key without jobs may be of no more use.
CREATE TABLE IF NOT EXISTS brant._brant_limits (
    queue text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    max_running bigint,
    max_starts bigint,
    per_s double precision,
    wake_at double precision,
    forget_at double precision,
    PRIMARY KEY (queue, key)
);
CREATE INDEX IF NOT EXISTS _brant_limits_waking ON brant._brant_limits (queue, wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS _brant_limits_idle ON brant._brant_limits (forget_at) WHERE forget_at IS NOT NULL;

-- The limited jobs, live and dead. One that its limit holds back is far in the future in _honker_live, so that no claim
-- walks it; its own time is here meanwhile.
CREATE TABLE IF NOT EXISTS brant._brant_limited (
    job_id bigint PRIMARY KEY,
    queue text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    running bigint NOT NULL DEFAULT 0,
    priority bigint NOT NULL DEFAULT 0,
    run_at double precision
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off
);
CREATE INDEX IF NOT EXISTS _brant_limited_key ON brant._brant_limited (queue, key, running);
CREATE INDEX IF NOT EXISTS _brant_limited_held_back
    ON brant._brant_limited (queue, key, priority DESC, run_at, job_id) WHERE run_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS _brant_limited_oldest ON brant._brant_limited (queue, key, run_at) WHERE run_at IS NOT NULL;

-- When the last max_starts jobs of a key were started, numbered in that order.
CREATE TABLE IF NOT EXISTS brant._brant_starts (
    queue text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    started_at double precision NOT NULL,
    PRIMARY KEY (queue, key, number)
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off
);

-- Keys that a job has left, for the next claim to look at. A row each, and not wake_at at once: that would keep a key
-- locked to the end of whatever transaction settles a job, and claims with it. Written even when nobody seems to be held
-- back: a claim that does not see the end of this job yet may be holding one back right now.
CREATE TABLE IF NOT EXISTS brant._brant_left_keys (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off
);
CREATE INDEX IF NOT EXISTS _brant_left_keys_queue ON brant._brant_left_keys (queue, key);

-- A job runs for as long as it is leased, whoever claims and settles it. The settings: a plan that was made while a table
-- was small must not walk it when it is large.
CREATE OR REPLACE FUNCTION brant._brant_limited_changed() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    UPDATE brant._brant_limited AS limited
    SET running = CASE WHEN changed.state = 'processing' THEN 1 ELSE 0 END, run_at = NULL
    FROM changed
    WHERE limited.job_id = changed.id AND (limited.running = 1) <> (changed.state = 'processing');
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER _brant_limited_changed AFTER UPDATE ON brant._honker_live
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION brant._brant_limited_changed();

-- One that is moved to another queue leaves the limits of the first.
CREATE OR REPLACE FUNCTION brant._brant_limited_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH moved AS (DELETE FROM brant._brant_limited WHERE job_id = NEW.id RETURNING run_at)
    UPDATE brant._honker_live AS live SET run_at = moved.run_at
    FROM moved WHERE live.id = NEW.id AND moved.run_at IS NOT NULL;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER _brant_limited_moved AFTER UPDATE OF queue ON brant._honker_live
    FOR EACH ROW WHEN (OLD.queue <> NEW.queue) EXECUTE FUNCTION brant._brant_limited_moved();

-- Whoever was not held back leaves room to one that was.
CREATE OR REPLACE FUNCTION brant._brant_key_left() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO brant._brant_left_keys (queue, key) VALUES (OLD.queue, OLD.key);
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER _brant_limit_freed AFTER UPDATE OF running ON brant._brant_limited
    FOR EACH ROW WHEN (NEW.running = 0 AND OLD.run_at IS NULL) EXECUTE FUNCTION brant._brant_key_left();
CREATE OR REPLACE TRIGGER _brant_limit_left AFTER DELETE ON brant._brant_limited
    FOR EACH ROW EXECUTE FUNCTION brant._brant_key_left();

CREATE OR REPLACE FUNCTION brant._brant_limit_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM brant._brant_starts WHERE queue = OLD.queue AND key = OLD.key;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER _brant_limit_gone AFTER DELETE ON brant._brant_limits
    FOR EACH ROW EXECUTE FUNCTION brant._brant_limit_gone();

-- Forgets some of the keys that have no jobs and whose starts count no more. The row of the key is locked first, which
-- whoever is about to add a job prevents, and only then, in a new snapshot, the jobs are looked for.
CREATE OR REPLACE FUNCTION brant._brant_forget_limits(in_now double precision, in_queue text DEFAULT NULL)
RETURNS SETOF text LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    idle record;
    unused_at double precision;
BEGIN
    FOR idle IN
        SELECT limits.queue, limits.key, limits.per_s, limits.max_starts FROM brant._brant_limits AS limits
        WHERE (limits.queue, limits.key) IN (
            SELECT queue, key FROM (
                SELECT queue, key FROM brant._brant_limits WHERE forget_at <= in_now LIMIT 10
            ) AS unused
            UNION ALL
            SELECT queue, key FROM (
                SELECT queue, key FROM brant._brant_left_keys WHERE queue = in_queue LIMIT 100
            ) AS of_queue
            UNION ALL
            SELECT queue, key FROM (
                SELECT queue, key FROM brant._brant_left_keys WHERE in_queue IS NULL LIMIT 100
            ) AS of_all
        ) AND NOT EXISTS (
            SELECT 1 FROM brant._brant_limited WHERE queue = limits.queue AND key = limits.key
        )
        FOR UPDATE SKIP LOCKED
    LOOP
        IF EXISTS (SELECT 1 FROM brant._brant_limited WHERE queue = idle.queue AND key = idle.key) THEN
            CONTINUE;
        END IF;
        DELETE FROM brant._brant_left_keys WHERE number IN (
            SELECT number FROM brant._brant_left_keys WHERE queue = idle.queue AND key = idle.key FOR UPDATE SKIP LOCKED
        );
        unused_at := 0;
        IF idle.max_starts IS NOT NULL THEN
            unused_at := idle.per_s + coalesce((
                SELECT max(started_at) FROM brant._brant_starts WHERE queue = idle.queue AND key = idle.key
            ), 0);
        END IF;
        IF unused_at <= in_now THEN
            DELETE FROM brant._brant_limits WHERE queue = idle.queue AND key = idle.key;
            RETURN NEXT idle.key;
        ELSE
            UPDATE brant._brant_limits SET forget_at = unused_at, wake_at = NULL
            WHERE queue = idle.queue AND key = idle.key;
        END IF;
    END LOOP;
END
$$;
