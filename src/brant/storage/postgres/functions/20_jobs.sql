CREATE OR REPLACE FUNCTION brant.honker_enqueue(
    queue text, payload text, run_at bigint, delay bigint, priority bigint, max_attempts bigint, expires bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    second double precision := floor(brant._brant_now());
BEGIN
    PERFORM brant._brant_require(
        'honker_enqueue', queue IS NOT NULL, payload IS NOT NULL, true, true, priority IS NOT NULL,
        max_attempts IS NOT NULL
    );
    RETURN brant._brant_enqueue(
        queue, payload, coalesce(second + delay, run_at, second), priority, max_attempts, second + expires
    );
END
$$;

-- Up to n jobs (negative: all), leased, by priority, time and id.
CREATE OR REPLACE FUNCTION brant.honker_claim_batch(queue text, worker text, n bigint, timeout_s bigint) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    at double precision := brant._brant_now();
    lease_end double precision := floor(at) + timeout_s;
    is_limited boolean := EXISTS (
        SELECT 1 FROM brant._brant_limits AS limits WHERE limits.queue = honker_claim_batch.queue
    );
    ids bigint[];
    answer text;
BEGIN
    PERFORM brant._brant_require(
        'honker_claim_batch', queue IS NOT NULL, worker IS NOT NULL, n IS NOT NULL, timeout_s IS NOT NULL
    );
    PERFORM brant._brant_upkeep(queue, is_limited);
    IF n = 0 OR EXISTS (SELECT 1 FROM brant._brant_queues WHERE name = honker_claim_batch.queue AND paused = 1) THEN
        RETURN '[]';
    END IF;
    IF is_limited THEN
        ids := brant._brant_claim_within_limits(queue, worker, lease_end, n, 0, 0, at);
    ELSE
        ids := ARRAY(SELECT job_id FROM brant._brant_candidates(
            queue, CASE WHEN n < 0 THEN 2147483647 ELSE n END, at, NULL
        ));
        UPDATE brant._honker_live
        SET state = 'processing', worker_id = worker, claim_expires_at = lease_end, attempts = attempts + 1
        WHERE id = ANY (ids);
    END IF;
    PERFORM brant._brant_emit('claimed', job.queue, job.id, job.attempts, at, concat(
            ', "worker": ' || to_json(worker), ', "task": ' || to_json(brant._brant_task_of(job.payload))
        ))
    FROM brant._honker_live AS job WHERE job.id = ANY (ids) AND EXISTS (
        SELECT 1 FROM brant._brant_queues WHERE name = honker_claim_batch.queue AND events = 1
    )
    ORDER BY job.priority DESC, job.run_at, job.id;
    SELECT string_agg(CAST(row_to_json(shown) AS text), ',' ORDER BY job.priority DESC, job.run_at, job.id) INTO answer
    FROM brant._honker_live AS job CROSS JOIN LATERAL (
        SELECT job.attempts, job.claim_expires_at, job.id, job.payload, job.queue, job.worker_id
    ) AS shown
    WHERE job.id = ANY (ids);
    RETURN '[' || coalesce(answer, '') || ']';
END
$$;

-- Removes jobs that this worker holds, and tells how many. Others are woken only where they may have waited for that: to
-- wake them makes commits wait for each other.
CREATE OR REPLACE FUNCTION brant._brant_ack(ids bigint[], worker text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    at double precision := brant._brant_now();
    done record;
    count bigint := 0;
    is_waited_for boolean := false;
BEGIN
    FOR done IN
        DELETE FROM brant._honker_live
        WHERE id = ANY (ids) AND worker_id = worker AND (claim_expires_at >= at OR claim_expires_at = floor(at))
        RETURNING id, queue, attempts
    LOOP
        PERFORM brant._brant_emit(
            'completed', done.queue, done.id, done.attempts, at, ', "worker": ' || to_json(worker)
        );
        count := count + 1;
        is_waited_for := is_waited_for
            OR EXISTS (SELECT 1 FROM brant._brant_queues WHERE name = done.queue AND events = 1)
            OR EXISTS (SELECT 1 FROM brant._brant_limits AS limits WHERE limits.queue = done.queue)
            OR EXISTS (SELECT 1 FROM brant._brant_batch_jobs WHERE job_id = done.id);
    END LOOP;
    IF is_waited_for THEN
        PERFORM brant._brant_ring();
    END IF;
    RETURN count;
END
$$;

CREATE OR REPLACE FUNCTION brant.honker_ack(id bigint, worker text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM brant._brant_require('honker_ack', id IS NOT NULL, worker IS NOT NULL);
    RETURN brant._brant_ack(ARRAY[id], worker);
END
$$;

CREATE OR REPLACE FUNCTION brant.honker_ack_batch(ids text, worker text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM brant._brant_require('honker_ack_batch', ids IS NOT NULL, worker IS NOT NULL);
    RETURN brant._brant_ack(brant._brant_ids_of(ids), worker);
END
$$;

CREATE OR REPLACE FUNCTION brant.honker_retry(id bigint, worker text, delay_s bigint, error text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    at double precision := brant._brant_now();
    again_at double precision := floor(at) + delay_s;
    job brant._honker_live;
BEGIN
    PERFORM brant._brant_require(
        'honker_retry', id IS NOT NULL, worker IS NOT NULL, delay_s IS NOT NULL, error IS NOT NULL
    );
    SELECT * INTO job FROM brant._brant_owned(honker_retry.id, worker) AS owned WHERE owned.state = 'processing';
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    IF job.attempts >= job.max_attempts THEN
        RETURN brant.honker_fail(honker_retry.id, worker, error);
    END IF;
    INSERT INTO brant._brant_attempts (job_id, attempt, worker_id, error, failed_at)
    VALUES (job.id, job.attempts, worker, honker_retry.error, floor(at));
    UPDATE brant._honker_live AS live
    SET state = 'pending', run_at = again_at, worker_id = NULL, claim_expires_at = NULL WHERE live.id = job.id;
    PERFORM brant._brant_emit('retried', job.queue, job.id, job.attempts, at, concat(
        ', "worker": ' || to_json(worker), ', "error": ' || to_json(error),
        ', "run_at": ' || CASE WHEN delay_s > 0 THEN to_json(again_at) END
    ));
    PERFORM brant._brant_ring();
    RETURN 1;
END
$$;

CREATE OR REPLACE FUNCTION brant.honker_fail(id bigint, worker text, error text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    job brant._honker_live;
BEGIN
    PERFORM brant._brant_require('honker_fail', id IS NOT NULL, worker IS NOT NULL, error IS NOT NULL);
    SELECT * INTO job FROM brant._brant_owned(honker_fail.id, worker);
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    INSERT INTO brant._brant_attempts (job_id, attempt, worker_id, error, failed_at)
    VALUES (job.id, job.attempts, worker, honker_fail.error, floor(brant._brant_now()));
    PERFORM brant._brant_bury(ARRAY[job.id], error);
    PERFORM brant._brant_ring();
    RETURN 1;
END
$$;

CREATE OR REPLACE FUNCTION brant.honker_heartbeat(id bigint, worker text, extend_s bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM brant._brant_require('honker_heartbeat', id IS NOT NULL, worker IS NOT NULL, extend_s IS NOT NULL);
    UPDATE brant._honker_live AS live SET claim_expires_at = floor(brant._brant_now()) + extend_s
    WHERE live.id = ANY (ARRAY(
        SELECT owned.id FROM brant._brant_owned(honker_heartbeat.id, worker) AS owned WHERE owned.state = 'processing'
    ));
    RETURN CAST(FOUND AS integer);
END
$$;

CREATE OR REPLACE FUNCTION brant.honker_cancel(id bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    gone record;
BEGIN
    PERFORM brant._brant_require('honker_cancel', id IS NOT NULL);
    -- First the job, then its membership: in this order everybody locks them.
    PERFORM 1 FROM brant._honker_live AS live WHERE live.id = honker_cancel.id FOR UPDATE;
    UPDATE brant._brant_batch_jobs SET state = 'cancelling'
    WHERE FOUND AND job_id = honker_cancel.id AND state = 'pending';
    DELETE FROM brant._honker_live AS live WHERE live.id = honker_cancel.id
    RETURNING live.id, live.queue, live.attempts INTO gone;
    IF gone IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM brant._brant_emit('cancelled', gone.queue, gone.id, gone.attempts, brant._brant_now(), '');
    PERFORM brant._brant_ring();
    RETURN 1;
END
$$;

CREATE OR REPLACE FUNCTION brant.honker_get_job(id bigint) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM brant._brant_require('honker_get_job', id IS NOT NULL);
    RETURN coalesce((
        SELECT CAST(row_to_json(shown) AS text)
        FROM brant._honker_live AS job LEFT JOIN brant._brant_limited AS limited ON limited.job_id = job.id
        CROSS JOIN LATERAL (
            SELECT job.attempts, job.claim_expires_at, job.created_at, job.expires_at, job.id, job.max_attempts,
                job.payload, job.priority, job.queue, coalesce(limited.run_at, job.run_at) AS run_at, job.state,
                job.worker_id
        ) AS shown
        WHERE job.id = honker_get_job.id
    ), '');
END
$$;

-- The next run, or the moment after the end of a lease; 0 when nothing is due later, also when something is due now.
CREATE OR REPLACE FUNCTION brant.honker_queue_next_claim_at(queue text) RETURNS double precision
LANGUAGE plpgsql STABLE AS $$
DECLARE
    at double precision := brant._brant_now();
BEGIN
    PERFORM brant._brant_require('honker_queue_next_claim_at', queue IS NOT NULL);
    RETURN (
        SELECT coalesce(min(moment), 0) FROM (
            SELECT min(job.run_at) AS moment FROM brant._honker_live AS job
            WHERE job.queue = honker_queue_next_claim_at.queue AND job.state = 'pending' AND job.run_at > at
                AND job.run_at < 253402300799 AND job.attempts < job.max_attempts
                AND (job.expires_at IS NULL OR job.expires_at > at)
            UNION ALL
            SELECT min(limits.wake_at) FROM brant._brant_limits AS limits
            WHERE limits.queue = honker_queue_next_claim_at.queue AND limits.wake_at > at
            UNION ALL
            SELECT min(job.claim_expires_at + CASE WHEN job.claim_expires_at = floor(job.claim_expires_at) THEN 1 ELSE 0 END)
            FROM brant._honker_live AS job
            WHERE job.queue = honker_queue_next_claim_at.queue AND job.state = 'processing'
                AND job.claim_expires_at >= floor(at)
                AND (job.claim_expires_at >= at OR job.claim_expires_at = floor(at))
                AND job.attempts < job.max_attempts AND (job.expires_at IS NULL OR job.expires_at > at)
        ) AS moments
    );
END
$$;

CREATE OR REPLACE FUNCTION brant.honker_sweep_expired(queue text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM brant._brant_require('honker_sweep_expired', queue IS NOT NULL);
    RETURN brant._brant_bury_expired(queue);
END
$$;
