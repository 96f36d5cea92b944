-- The run_at of a job that its limit holds back: the end of the year 9999.
-- fragment: held_back
253402300799

-- fragment: of_key
queue = :queue AND key = :key

-- fragment: has_limits
EXISTS (SELECT 1 FROM _brant_limits WHERE queue = :queue)

-- fragment: changes_settings
max_running IS NOT excluded.max_running OR max_starts IS NOT excluded.max_starts OR per_s IS NOT excluded.per_s

-- The newest settings of a key win; the same again write nothing.
-- name: set_limit
INSERT INTO _brant_limits (queue, key, max_running, max_starts, per_s)
VALUES (:queue, :key, :max_running, :max_starts, :per_s)
ON CONFLICT (queue, key) DO UPDATE
SET max_running = excluded.max_running, max_starts = excluded.max_starts, per_s = excluded.per_s,
    wake_at = iif({{changes_settings}}, 0, wake_at), forget_at = NULL
WHERE forget_at IS NOT NULL OR {{changes_settings}}

-- name: drop_limit
DELETE FROM _brant_limits WHERE {{of_key}}

-- name: list_limits
SELECT key, max_running, max_starts, per_s FROM _brant_limits WHERE queue = :queue ORDER BY key

-- A few a call, so that the table stays small and no call pays for all.
-- name: forget_unused_limits
DELETE FROM _brant_limits
WHERE (queue, key) IN (
    SELECT queue, key FROM _brant_limits INDEXED BY _brant_limits_idle WHERE forget_at <= :now LIMIT 10
)

-- name: limit_jobs
INSERT INTO _brant_limited (job_id, queue, key, priority)
SELECT value, :queue, :key, :priority FROM json_each(:ids)

-- name: limit_of_key
SELECT max_running, max_starts, per_s FROM _brant_limits WHERE {{of_key}}

-- By the leases on the jobs themselves: a lease that has run out takes no room, whatever was noted about it.
-- name: running_of_key
SELECT count(*) FROM (
    SELECT 1 FROM _brant_limited AS limited INDEXED BY _brant_limited_key
    CROSS JOIN _honker_live AS job ON job.id = limited.job_id
    WHERE limited.queue = :queue AND limited.key = :key AND limited.running = 1
        AND job.state = 'processing' AND (job.claim_expires_at >= :now OR job.claim_expires_at = :second)
    LIMIT :bound
)

-- name: running_of_queue
SELECT count(*) FROM (SELECT 1 {{leases}} AND claim_expires_at >= :second LIMIT :bound)

-- fragment: newest_start
coalesce((SELECT max(number) FROM _brant_starts WHERE {{of_key}}), 0)

-- How many of the next starts are too early: each may be made when the one max_starts before it is out of the window.
-- name: starts_too_early
SELECT count(*) FROM _brant_starts
WHERE {{of_key}} AND number > {{newest_start}} - :max_starts AND number <= {{newest_start}} - :max_starts + :bound
    AND started_at + :per_s > :now

-- name: next_start_at
SELECT started_at + :per_s FROM _brant_starts WHERE {{of_key}} AND number = {{newest_start}} - :max_starts + 1

-- name: note_starts
INSERT INTO _brant_starts (queue, key, number, started_at)
SELECT :queue, :key, {{newest_start}} + 1 + item.key, :now FROM json_each(:ids) AS item

-- name: forget_starts
DELETE FROM _brant_starts WHERE {{of_key}} AND number <= {{newest_start}} - :max_starts

-- name: candidates
SELECT job.id, (SELECT key FROM _brant_limited WHERE job_id = job.id) {{ready_from}} LIMIT :limit

-- Those that are due longest, whatever their priority.
-- name: overdue_candidates
SELECT id, (SELECT key FROM _brant_limited WHERE job_id = id)
FROM _honker_live INDEXED BY _honker_live_pending_deadline
WHERE queue = :queue AND state = 'pending' AND run_at < :now - :max_wait
    AND attempts < max_attempts AND (expires_at IS NULL OR expires_at > :now)
ORDER BY run_at LIMIT :limit

-- name: claim_ids
UPDATE _honker_live
SET state = 'processing', worker_id = :worker, claim_expires_at = :lease_end, attempts = attempts + 1
WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'pending'
RETURNING {{claimed_columns}}

-- name: note_held_back
UPDATE _brant_limited SET (priority, run_at) = (SELECT priority, run_at FROM _honker_live WHERE id = job_id)
WHERE job_id IN (SELECT value FROM json_each(:ids))

-- name: hold_back
UPDATE _honker_live SET run_at = {{held_back}} WHERE id IN (SELECT value FROM json_each(:ids))

-- name: woken_keys
SELECT key FROM _brant_limits INDEXED BY _brant_limits_waking WHERE queue = :queue AND wake_at <= :now LIMIT :limit

-- name: best_held_back
SELECT job_id FROM _brant_limited INDEXED BY _brant_limited_held_back
WHERE {{of_key}} AND run_at IS NOT NULL ORDER BY priority DESC, run_at, job_id LIMIT :limit

-- name: longest_held_back
SELECT job_id FROM _brant_limited INDEXED BY _brant_limited_oldest
WHERE {{of_key}} AND run_at IS NOT NULL AND run_at < :now - :max_wait ORDER BY run_at LIMIT 1

-- name: let_go
UPDATE _honker_live SET run_at = coalesce((SELECT run_at FROM _brant_limited WHERE job_id = id), run_at)
WHERE id IN (SELECT value FROM json_each(:ids))

-- name: note_let_go
UPDATE _brant_limited SET run_at = NULL WHERE job_id IN (SELECT value FROM json_each(:ids))

-- name: wake_key
UPDATE _brant_limits SET wake_at = :wake_at WHERE {{of_key}} AND wake_at IS NOT :wake_at

-- name: wake_key_if_needed
UPDATE _brant_limits SET wake_at = :wake_at
WHERE {{of_key}} AND wake_at IS NOT :wake_at AND EXISTS (
    SELECT 1 FROM _brant_limited INDEXED BY _brant_limited_held_back WHERE {{of_key}} AND run_at IS NOT NULL
)

-- What a worker should wait for beside all that counts for a queue without limits.
-- name: limited_claimable
SELECT
    {{any_lapsed}},
    EXISTS (SELECT 1 FROM _brant_limits INDEXED BY _brant_limits_waking WHERE queue = :queue AND wake_at <= :now)
        OR {{any_expired}},
    (SELECT min(wake_at) FROM _brant_limits INDEXED BY _brant_limits_waking WHERE queue = :queue AND wake_at > :now),
    (
        SELECT min(expires_at) FROM _honker_live INDEXED BY _brant_live_expiring
        WHERE queue = :queue AND state = 'pending' AND expires_at IS NOT NULL AND expires_at > :now
    )

-- name: any_expired
SELECT {{any_expired}}

-- fragment: any_expired
EXISTS (
    SELECT 1 FROM _honker_live INDEXED BY _brant_live_expiring
    WHERE queue = :queue AND state = 'pending' AND expires_at IS NOT NULL AND expires_at <= :now
)
