-- The settings of some functions here: a plan that was made while a table was small must not walk it when it is large.

-- Whether a job of the key is held back. By its order, the subquery uses the index that was made for it.
CREATE OR REPLACE FUNCTION brant._brant_any_held_back(in_queue text, in_key text) RETURNS boolean
LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
BEGIN
    RETURN (
        SELECT job_id FROM brant._brant_limited WHERE queue = in_queue AND key = in_key AND run_at IS NOT NULL
        ORDER BY priority DESC, run_at, job_id LIMIT 1
    ) IS NOT NULL;
END
$$;

-- How many more jobs of a key may start, counted up to `most`; null where it has no limit. What runs is what is leased: a
-- lease that has run out takes room until it is freed, which a claim does first.
CREATE OR REPLACE FUNCTION brant._brant_room(in_queue text, in_key text, most bigint, in_now double precision)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    limits brant._brant_limits;
    free bigint := most;
    newest bigint;
BEGIN
    SELECT * INTO limits FROM brant._brant_limits WHERE queue = in_queue AND key = in_key;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF limits.max_running IS NOT NULL AND in_key = '' THEN
        free := least(free, limits.max_running - (SELECT count(*) FROM (
            SELECT 1 FROM brant._honker_live WHERE queue = in_queue AND state = 'processing' LIMIT limits.max_running
        ) AS running));
    ELSIF limits.max_running IS NOT NULL THEN
        free := least(free, limits.max_running - (SELECT count(*) FROM (
            SELECT 1 FROM brant._brant_limited WHERE queue = in_queue AND key = in_key AND running = 1
            LIMIT limits.max_running
        ) AS running));
    END IF;
    IF limits.max_starts IS NOT NULL AND free > 0 THEN
        free := least(free, limits.max_starts);
        newest := coalesce((SELECT max(number) FROM brant._brant_starts WHERE queue = in_queue AND key = in_key), 0);
        -- Each start may be made when the one max_starts before it is out of the window.
        free := free - (
            SELECT count(*) FROM brant._brant_starts
            WHERE queue = in_queue AND key = in_key
                AND number > newest - limits.max_starts AND number <= newest - limits.max_starts + free
                AND started_at + limits.per_s > in_now
        );
    END IF;
    RETURN free;
END
$$;

-- When the window of a key lets the next one start; null when it would do so now, or has none.
CREATE OR REPLACE FUNCTION brant._brant_next_start(in_queue text, in_key text, in_now double precision)
RETURNS double precision LANGUAGE sql VOLATILE AS $$
    SELECT starts.started_at + limits.per_s
    FROM brant._brant_limits AS limits
    JOIN brant._brant_starts AS starts ON starts.queue = limits.queue AND starts.key = limits.key
    WHERE limits.queue = in_queue AND limits.key = in_key AND starts.number = limits.max_starts * -1 + 1 + (
        SELECT max(number) FROM brant._brant_starts WHERE queue = in_queue AND key = in_key
    ) AND starts.started_at + limits.per_s > in_now
$$;

-- Lets the best of a key go that were held back, up to `most`, and says when to look again for those that stay.
CREATE OR REPLACE FUNCTION brant._brant_let_go(
    in_queue text, in_key text, most bigint, in_now double precision, overdue_before double precision
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    room bigint := brant._brant_room(in_queue, in_key, most, in_now);
    free bigint := greatest(coalesce(room, most), 0);
    waiting bigint[];
    going bigint[];
    next_wake double precision;
BEGIN
    -- One whose job somebody is cancelling, or moving, right now is passed over.
    waiting := ARRAY(
        SELECT job.id FROM brant._brant_limited AS limited JOIN brant._honker_live AS job ON job.id = limited.job_id
        WHERE limited.queue = in_queue AND limited.key = in_key AND limited.run_at IS NOT NULL
        ORDER BY limited.priority DESC, limited.run_at, limited.job_id LIMIT free + 1
        FOR UPDATE OF job SKIP LOCKED
    );
    going := waiting[:free];
    IF cardinality(going) > 0 AND overdue_before IS NOT NULL THEN
        going := going || ARRAY(
            SELECT job.id FROM brant._brant_limited AS limited JOIN brant._honker_live AS job ON job.id = limited.job_id
            WHERE limited.queue = in_queue AND limited.key = in_key AND limited.run_at < overdue_before
                AND limited.job_id <> ALL (going)
            ORDER BY limited.run_at LIMIT 1
            FOR UPDATE OF job SKIP LOCKED
        );
    END IF;
    IF cardinality(going) > 0 THEN
        UPDATE brant._honker_live AS job SET run_at = limited.run_at
        FROM brant._brant_limited AS limited
        WHERE job.id = ANY (going) AND limited.job_id = job.id AND limited.run_at IS NOT NULL;
        UPDATE brant._brant_limited SET run_at = NULL WHERE job_id = ANY (going);
    END IF;
    IF free = 0 AND room IS NOT NULL THEN
        IF cardinality(waiting) > 0 THEN
            next_wake := brant._brant_next_start(in_queue, in_key, in_now);
        END IF;
    ELSIF cardinality(waiting) > free AND free = most THEN
        next_wake := 0;
    ELSIF brant._brant_any_held_back(in_queue, in_key) THEN
        -- Those that were let go leave room when they run or end; should that stay unnoticed, the key is woken all the same.
        next_wake := in_now + 60;
    END IF;
    UPDATE brant._brant_limits SET wake_at = next_wake
    WHERE queue = in_queue AND key = in_key AND wake_at IS DISTINCT FROM next_wake;
    RETURN cardinality(going);
END
$$;

-- Wakes the keys that jobs have left, and lets those go that have room, until there are enough for this claim.
CREATE OR REPLACE FUNCTION brant._brant_let_go_woken(
    in_queue text, wanted bigint, in_now double precision, overdue_before double precision
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    woken text;
    let_go bigint := 0;
BEGIN
    PERFORM brant._brant_forget_limits(in_now, in_queue);
    WITH seen AS (
        DELETE FROM brant._brant_left_keys WHERE number IN (
            SELECT number FROM brant._brant_left_keys WHERE queue = in_queue LIMIT 1000 FOR UPDATE SKIP LOCKED
        )
        RETURNING key
    )
    UPDATE brant._brant_limits AS limits SET wake_at = 0
    WHERE limits.queue = in_queue AND limits.key = ANY (ARRAY(SELECT DISTINCT key FROM seen))
        AND brant._brant_any_held_back(in_queue, limits.key);
    FOR woken IN
        SELECT key FROM brant._brant_limits WHERE queue = in_queue AND wake_at <= in_now ORDER BY wake_at LIMIT 200
    LOOP
        let_go := let_go + brant._brant_let_go(in_queue, woken, greatest(wanted, 500), in_now, overdue_before);
        EXIT WHEN let_go >= wanted;
    END LOOP;
END
$$;

-- Up to `page` candidates for a claim, in order and locked, with their keys: due longer than since `overdue_before`, or,
-- where that is null, by priority.
CREATE OR REPLACE FUNCTION brant._brant_candidates(
    in_queue text, page bigint, in_now double precision, overdue_before double precision
) RETURNS TABLE (job_id bigint, limit_key text) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    level bigint;
    found bigint := 0;
    of_level bigint;
BEGIN
    IF overdue_before IS NOT NULL THEN
        RETURN QUERY
            SELECT job.id, (SELECT limited.key FROM brant._brant_limited AS limited WHERE limited.job_id = job.id)
            FROM brant._honker_live AS job
            WHERE job.queue = in_queue AND job.state = 'pending' AND job.run_at < overdue_before
                AND job.attempts < job.max_attempts AND (job.expires_at IS NULL OR job.expires_at > in_now)
            ORDER BY job.run_at LIMIT page FOR UPDATE SKIP LOCKED;
        RETURN;
    END IF;
    SELECT max(job.priority) INTO level FROM brant._honker_live AS job
    WHERE job.queue = in_queue AND job.state = 'pending';
    WHILE level IS NOT NULL AND found < page LOOP
        RETURN QUERY
            SELECT job.id, (SELECT limited.key FROM brant._brant_limited AS limited WHERE limited.job_id = job.id)
            FROM brant._honker_live AS job
            WHERE job.queue = in_queue AND job.state = 'pending' AND job.priority = level AND job.run_at <= in_now
                AND job.attempts < job.max_attempts AND (job.expires_at IS NULL OR job.expires_at > in_now)
            ORDER BY job.run_at, job.id LIMIT page - found FOR UPDATE SKIP LOCKED;
        GET DIAGNOSTICS of_level = ROW_COUNT;
        found := found + of_level;
        SELECT max(job.priority) INTO level FROM brant._honker_live AS job
        WHERE job.queue = in_queue AND job.state = 'pending' AND job.priority < level;
    END LOOP;
END
$$;

-- Leases those candidates of one page that may start, in order, as far as their limits allow; the others are held back.
-- `rooms` goes on from page to page: how many more of each key, or null where it has no limit.
CREATE OR REPLACE FUNCTION brant._brant_lease_page(
    in_queue text, in_worker text, in_lease_end double precision, ids bigint[], keys text[], wanted bigint,
    in_now double precision, INOUT rooms jsonb, OUT leased bigint[], OUT held_back bigint
) LANGUAGE plpgsql AS $$
DECLARE
    refused bigint[] := '{}';
BEGIN
    leased := '{}';
    FOR place IN 1 .. coalesce(cardinality(ids), 0) LOOP
        EXIT WHEN cardinality(leased) >= wanted;
        IF keys[place] IS NOT NULL AND NOT rooms ? keys[place] THEN
            -- One more than can be used: so that what has been filled by this claim is known from what is full.
            rooms := rooms || jsonb_build_object(
                keys[place], brant._brant_room(in_queue, keys[place], wanted + 1, in_now)
            );
        END IF;
        IF keys[place] IS NULL OR rooms ->> keys[place] IS NULL THEN
            leased := leased || ids[place];
        ELSIF CAST(rooms ->> keys[place] AS bigint) > 0 THEN
            leased := leased || ids[place];
            rooms := jsonb_set(rooms, ARRAY[keys[place]], to_jsonb(CAST(rooms ->> keys[place] AS bigint) - 1));
        ELSE
            refused := refused || ids[place];
        END IF;
    END LOOP;
    held_back := cardinality(refused);
    IF held_back > 0 THEN
        UPDATE brant._brant_limited AS limited SET priority = job.priority, run_at = job.run_at
        FROM brant._honker_live AS job WHERE job.id = limited.job_id AND limited.job_id = ANY (refused);
        UPDATE brant._honker_live SET run_at = 253402300799 WHERE id = ANY (refused);
    END IF;
    UPDATE brant._honker_live
    SET state = 'processing', worker_id = in_worker, claim_expires_at = in_lease_end, attempts = attempts + 1
    WHERE id = ANY (leased);
END
$$;

-- Keeps the times of `started` starts of a key.
CREATE OR REPLACE FUNCTION brant._brant_note_starts(
    in_queue text, in_key text, started bigint, in_now double precision
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    most bigint := (SELECT max_starts FROM brant._brant_limits WHERE queue = in_queue AND key = in_key);
    newest bigint;
BEGIN
    IF most IS NULL OR started = 0 THEN
        RETURN;
    END IF;
    newest := coalesce((SELECT max(number) FROM brant._brant_starts WHERE queue = in_queue AND key = in_key), 0);
    INSERT INTO brant._brant_starts (queue, key, number, started_at)
    SELECT in_queue, in_key, newest + step, in_now FROM generate_series(1, started) AS step;
    DELETE FROM brant._brant_starts WHERE queue = in_queue AND key = in_key AND number <= newest + started - most;
END
$$;

-- Leases up to `most` jobs (negative: all) of a queue with limits; up to `overdue` of them are those due longest, if that
-- is longer than `max_wait`. Claims of such a queue take turns: whether there is room is known only when the claim before
-- has ended. All that this one reads, it reads in snapshots from after that.
CREATE OR REPLACE FUNCTION brant._brant_claim_within_limits(
    in_queue text, in_worker text, in_lease_end double precision, most bigint, overdue bigint,
    max_wait double precision, in_now double precision
) RETURNS bigint[] LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    wanted bigint := CASE WHEN most < 0 THEN 2147483648 ELSE most END;
    overdue_before double precision := CASE WHEN overdue > 0 THEN in_now - max_wait END;
    of_queue bigint;
    rooms jsonb := '{}';
    claimed bigint[] := '{}';
    held_back bigint := 0;
    page bigint;
    candidates record;
    step record;
    touched text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(in_queue, CAST(CAST('brant._brant_limits' AS regclass) AS bigint)));
    of_queue := brant._brant_room(in_queue, '', wanted, in_now);
    wanted := least(wanted, of_queue);
    IF wanted <= 0 THEN
        RETURN claimed;
    END IF;
    PERFORM brant._brant_let_go_woken(in_queue, wanted, in_now, overdue_before);
    LOOP
        page := CASE
            WHEN overdue_before IS NOT NULL THEN least(overdue, wanted)
            WHEN held_back = 0 THEN least(wanted - cardinality(claimed), 500)
            ELSE 500
        END;
        SELECT array_agg(job_id) AS ids, array_agg(limit_key) AS keys INTO candidates
        FROM brant._brant_candidates(in_queue, page, in_now, overdue_before);
        SELECT * INTO step FROM brant._brant_lease_page(
            in_queue, in_worker, in_lease_end, candidates.ids, candidates.keys, wanted - cardinality(claimed), in_now,
            rooms
        );
        rooms := step.rooms;
        claimed := claimed || step.leased;
        held_back := held_back + step.held_back;
        EXIT WHEN overdue_before IS NULL AND coalesce(cardinality(candidates.ids), 0) < page
            OR cardinality(claimed) >= wanted OR held_back >= 10000;
        overdue_before := NULL;
    END LOOP;
    PERFORM brant._brant_note_starts(in_queue, '', cardinality(claimed), in_now);
    FOR touched IN SELECT jsonb_object_keys(rooms) LOOP
        PERFORM brant._brant_note_starts(in_queue, touched, (
            SELECT count(*) FROM brant._brant_limited WHERE job_id = ANY (claimed) AND key = touched
        ), in_now);
        IF CAST(rooms ->> touched AS bigint) <= 0 THEN
            UPDATE brant._brant_limits SET wake_at = brant._brant_next_start(in_queue, touched, in_now)
            WHERE queue = in_queue AND key = touched AND brant._brant_any_held_back(in_queue, touched);
        END IF;
    END LOOP;
    RETURN claimed;
END
$$;
