-- The run_at of a job that its limit holds back: the end of the year 9999.
-- fragment: held_back
253402300799

-- fragment: of_key
queue = :queue AND key = :key

-- fragment: has_limits
EXISTS (SELECT 1 FROM brant._brant_limits WHERE queue = :queue)

-- Whether the key has these settings already; then it is not forgotten before this transaction ends, which is all that
-- most who use it need to know. Others may ask so at the same time.
-- name: keep_limit
SELECT 1 FROM brant._brant_limits
WHERE {{of_key}} AND max_running IS NOT DISTINCT FROM CAST(:max_running AS bigint)
    AND max_starts IS NOT DISTINCT FROM CAST(:max_starts AS bigint)
    AND per_s IS NOT DISTINCT FROM CAST(:per_s AS double precision)
FOR KEY SHARE

-- The newest settings of a key win.
-- name: set_limit
INSERT INTO brant._brant_limits (queue, key, max_running, max_starts, per_s)
VALUES (:queue, :key, :max_running, :max_starts, :per_s)
ON CONFLICT (queue, key) DO UPDATE
SET max_running = excluded.max_running, max_starts = excluded.max_starts, per_s = excluded.per_s, wake_at = 0

-- name: drop_limit
DELETE FROM brant._brant_limits WHERE {{of_key}}

-- Not those whose last job is gone, which the next claim forgets.
-- name: list_limits
SELECT key, max_running, max_starts, per_s FROM brant._brant_limits AS limits
WHERE queue = :queue AND (key = '' OR max_starts IS NOT NULL OR EXISTS (
    SELECT 1 FROM brant._brant_limited AS limited WHERE limited.queue = limits.queue AND limited.key = limits.key
))
ORDER BY key

-- name: forget_unused_limits
SELECT brant._brant_forget_limits(:now)

-- name: limit_jobs
INSERT INTO brant._brant_limited (job_id, queue, key, priority)
SELECT job_id, :queue, :key, :priority FROM unnest({{ids}}) AS new (job_id)

-- name: claim_within_limits
SELECT unnest(brant._brant_claim_within_limits(
    CAST(:queue AS text), CAST(:worker AS text), CAST(:lease_end AS double precision), :limit, :overdue,
    CAST(:max_wait AS double precision), CAST(:now AS double precision)
))

-- name: claimed_jobs
SELECT {{claimed_columns}} FROM brant._honker_live WHERE id = ANY {{ids}}

-- name: limit_of_key
SELECT max_running, max_starts, per_s FROM brant._brant_limits WHERE {{of_key}}

-- name: running_of_queue
SELECT count(*) FROM (
    SELECT 1 FROM brant._honker_live WHERE queue = :queue AND state = 'processing' LIMIT :bound
) AS running

-- fragment: newest_start
coalesce((SELECT max(number) FROM brant._brant_starts WHERE {{of_key}}), 0)

-- How many of the next starts are too early: each may be made when the one max_starts before it is out of the window.
-- name: starts_too_early
SELECT count(*) FROM brant._brant_starts
WHERE {{of_key}} AND number > {{newest_start}} - :max_starts AND number <= {{newest_start}} - :max_starts + :bound
    AND started_at + :per_s > :now

-- name: next_start_at
SELECT started_at + :per_s FROM brant._brant_starts WHERE {{of_key}} AND number = {{newest_start}} - :max_starts + 1

-- Those that are due longest, whatever their priority.
-- name: overdue_candidates
SELECT job_id, limit_key FROM brant._brant_candidates(
    CAST(:queue AS text), :limit, CAST(:now AS double precision),
    CAST(:now AS double precision) - CAST(:max_wait AS double precision)
)

-- name: claim_ids
UPDATE brant._honker_live
SET state = 'processing', worker_id = :worker, claim_expires_at = :lease_end, attempts = attempts + 1
WHERE id = ANY {{ids}} AND state = 'pending'
RETURNING {{claimed_columns}}

-- A key that a job has left, with another one that was held back.
-- fragment: any_left
EXISTS (
    SELECT 1 FROM brant._brant_left_keys AS gone
    WHERE gone.queue = :queue AND brant._brant_any_held_back(gone.queue, gone.key)
)

-- What a worker should wait for beside all that counts for a queue without limits.
-- name: limited_claimable
SELECT
    {{any_lapsed}},
    EXISTS (SELECT 1 FROM brant._brant_limits WHERE queue = :queue AND wake_at <= :now)
        OR {{any_left}} OR {{any_expired}},
    (SELECT min(wake_at) FROM brant._brant_limits WHERE queue = :queue AND wake_at > :now),
    (
        SELECT min(expires_at) FROM brant._honker_live
        WHERE queue = :queue AND state = 'pending' AND expires_at IS NOT NULL AND expires_at > :now
    )

-- name: any_expired
SELECT {{any_expired}}

-- fragment: any_expired
EXISTS (
    SELECT 1 FROM brant._honker_live
    WHERE queue = :queue AND state = 'pending' AND expires_at IS NOT NULL AND expires_at <= :now
)
