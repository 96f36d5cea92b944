-- What the SQL functions share. They are called by any language with a driver: `SELECT brant.honker_enqueue(...)`. Each
-- is one statement to its caller, so all of it happens or nothing, in the caller's transaction. Time is the server's.

CREATE OR REPLACE FUNCTION brant._brant_require(function_name text, VARIADIC are_given boolean[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF false = ANY (are_given) THEN
        RAISE EXCEPTION '%: argument % must not be NULL', function_name, array_position(are_given, false)
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
END
$$;

-- Wakes those who wait, in all processes, at the commit.
CREATE OR REPLACE FUNCTION brant._brant_ring() RETURNS void LANGUAGE sql VOLATILE AS $$
    SELECT pg_notify('brant:' || nspname, '') FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE pg_class.oid = CAST('brant._honker_live' AS regclass)
$$;

CREATE OR REPLACE FUNCTION brant._brant_ids_of(ids text) RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    item json;
    found bigint[] := '{}';
BEGIN
    FOR item IN SELECT * FROM json_array_elements(CAST(ids AS json)) LOOP
        IF CAST(item AS text) !~ '^-?[0-9]+$' THEN
            RAISE EXCEPTION 'expected a JSON array of ids, not %', ids USING ERRCODE = 'invalid_parameter_value';
        END IF;
        found := found || CAST(CAST(item AS text) AS bigint);
    END LOOP;
    RETURN found;
END
$$;

-- A time not earlier than so many seconds from now, in whole seconds; none at all is over at once.
CREATE OR REPLACE FUNCTION brant._brant_at_least(seconds bigint) RETURNS double precision LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN seconds > 0 THEN ceil(brant._brant_now()) ELSE floor(brant._brant_now()) END + seconds
$$;

CREATE OR REPLACE FUNCTION brant.honker_bootstrap() RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT CAST(1 AS bigint)';

-- Adds a job, makes its queue known and tells of it.
CREATE OR REPLACE FUNCTION brant._brant_enqueue(
    in_queue text, in_payload text, in_run_at double precision, in_priority bigint, in_max_attempts bigint,
    in_expires_at double precision
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    at double precision := brant._brant_now();
    job_id bigint := brant._brant_take_ids('brant._brant_job_ids', CAST(floor(at * 1000000) AS bigint));
    task text := brant._brant_task_of(in_payload);
BEGIN
    INSERT INTO brant._honker_live (id, queue, payload, priority, run_at, max_attempts, created_at, expires_at)
    VALUES (job_id, in_queue, in_payload, in_priority, in_run_at, in_max_attempts, floor(at), in_expires_at);
    PERFORM brant._brant_register(in_queue);
    PERFORM brant._brant_emit('enqueued', in_queue, job_id, 0, at, concat(
        ', "task": ' || to_json(task), ', "run_at": ' || CASE WHEN in_run_at > at THEN to_json(in_run_at) END
    ));
    PERFORM brant._brant_ring();
    RETURN job_id;
END
$$;

-- Makes the name of a queue known. One whom somebody else is adding right now is not waited for: that could last for
-- minutes, and jobs make their queue known as well.
CREATE OR REPLACE FUNCTION brant._brant_register(in_queue text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM brant._brant_queues WHERE name = in_queue) THEN
        RETURN;
    END IF;
    IF pg_try_advisory_xact_lock(hashtextextended(in_queue, 1651663217)) THEN
        INSERT INTO brant._brant_queues (name) VALUES (in_queue) ON CONFLICT (name) DO NOTHING;
    END IF;
END
$$;

-- Makes dead letters of live jobs, which the caller has locked.
CREATE OR REPLACE FUNCTION brant._brant_bury(ids bigint[], why text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    at double precision := brant._brant_now();
    gone record;
    buried bigint := 0;
BEGIN
    INSERT INTO brant._honker_dead AS dead
        (id, queue, payload, priority, run_at, attempts, max_attempts, last_error, created_at, died_at)
    SELECT job.id, job.queue, job.payload, job.priority, coalesce(limited.run_at, job.run_at), job.attempts,
        job.max_attempts, why, job.created_at, floor(at)
    FROM brant._honker_live AS job LEFT JOIN brant._brant_limited AS limited ON limited.job_id = job.id
    WHERE job.id = ANY (ids)
    ON CONFLICT (id) DO UPDATE
    SET queue = excluded.queue, payload = excluded.payload, priority = excluded.priority, run_at = excluded.run_at,
        attempts = excluded.attempts, max_attempts = excluded.max_attempts, last_error = excluded.last_error,
        created_at = excluded.created_at, died_at = excluded.died_at;
    FOR gone IN DELETE FROM brant._honker_live WHERE id = ANY (ids) RETURNING id, queue, attempts LOOP
        PERFORM brant._brant_emit('dead', gone.queue, gone.id, gone.attempts, at, ', "error": ' || to_json(why));
        buried := buried + 1;
    END LOOP;
    RETURN buried;
END
$$;

-- Before handing out: frees lapsed leases, buries what may not run.
CREATE OR REPLACE FUNCTION brant._brant_upkeep(in_queue text, is_limited boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    at double precision := brant._brant_now();
    doomed bigint[];
BEGIN
    WITH lapsed AS MATERIALIZED (
        SELECT id, attempts, worker_id FROM brant._honker_live
        WHERE queue = in_queue AND state = 'processing' AND claim_expires_at < at
            AND (claim_expires_at < floor(at) OR claim_expires_at > floor(at))
        FOR UPDATE SKIP LOCKED
    ), noted AS (
        INSERT INTO brant._brant_attempts (job_id, attempt, worker_id, error, failed_at)
        SELECT id, attempts, worker_id, 'the lease ran out: the worker died or stalled', floor(at) FROM lapsed
    )
    UPDATE brant._honker_live SET state = 'pending', worker_id = NULL, claim_expires_at = NULL
    WHERE id = ANY (ARRAY(SELECT id FROM lapsed));
    LOOP
        doomed := ARRAY(
            SELECT id FROM brant._honker_live
            WHERE queue = in_queue AND state = 'pending' AND attempts >= max_attempts AND run_at <= at LIMIT 1000
            FOR UPDATE SKIP LOCKED
        );
        EXIT WHEN cardinality(doomed) = 0;
        PERFORM brant._brant_bury(doomed, 'max attempts exceeded');
    END LOOP;
    -- Few expired rows are cheap to step over; but where there are limits, one may be what others of its key wait for.
    IF is_limited OR 99 < (SELECT count(*) FROM (
        SELECT 1 FROM brant._honker_live
        WHERE queue = in_queue AND state = 'pending' AND expires_at IS NOT NULL AND expires_at <= at LIMIT 100
    ) AS expired) THEN
        PERFORM brant._brant_bury_expired(in_queue);
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION brant._brant_bury_expired(in_queue text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    doomed bigint[];
    buried bigint := 0;
BEGIN
    LOOP
        doomed := ARRAY(
            SELECT id FROM brant._honker_live
            WHERE queue = in_queue AND state = 'pending' AND expires_at IS NOT NULL AND expires_at <= brant._brant_now()
            LIMIT 1000 FOR UPDATE SKIP LOCKED
        );
        EXIT WHEN cardinality(doomed) = 0;
        buried := buried + brant._brant_bury(doomed, 'expired');
    END LOOP;
    RETURN buried;
END
$$;

-- A live job that this worker holds, locked; no row when the claim is lost. A lease in whole seconds holds to the end of
-- its last second.
CREATE OR REPLACE FUNCTION brant._brant_owned(job_id bigint, worker text) RETURNS SETOF brant._honker_live
LANGUAGE sql VOLATILE AS $$
    SELECT * FROM brant._honker_live
    WHERE id = job_id AND worker_id = worker
        AND (claim_expires_at >= brant._brant_now() OR claim_expires_at = floor(brant._brant_now()))
    FOR UPDATE
$$;
