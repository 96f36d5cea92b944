-- fragment: next_job_id
max(:micros, (SELECT coalesce(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = '_honker_live'))

-- A lease in whole seconds holds to the end of its last second, as in Honker; a fractional one ends when it says.
-- fragment: held
(claim_expires_at >= :now OR claim_expires_at = :second)

-- The complement of "held".
-- fragment: lapsed
(claim_expires_at < :second OR (claim_expires_at > :second AND claim_expires_at < :now))

-- fragment: owned
id = :id AND worker_id = :worker AND {{held}} AND (:attempt IS NULL OR attempts = :attempt)

-- As bytes: a text that another program stored and that is not UTF-8 must not block the rows behind it.
-- fragment: payload
CAST(payload AS BLOB)

-- fragment: job_columns
id, queue, {{payload}}, state, priority, run_at, worker_id, claim_expires_at, attempts, max_attempts, created_at, expires_at

-- Also of a job that its limit holds back.
-- fragment: own_run_at
coalesce((SELECT limited.run_at FROM _brant_limited AS limited WHERE limited.job_id = id), run_at)

-- The plus: without it SQLite scans the table where this stands behind RETURNING.
-- fragment: wants_events
(SELECT events FROM _brant_queues WHERE name = +queue)

-- What is told of a job that is deleted; the plus as above.
-- fragment: gone_columns
id, queue, attempts, {{wants_events}}, (SELECT batch_id FROM _brant_batch_jobs WHERE job_id = +id)

-- Steps from one priority to the next lower one and seeks the due rows of each, so that delayed rows are never
-- walked. CROSS JOIN and the index fix the order: priority, run_at, id. The likelihood says that priorities are few: else
-- SQLite 3.38 to 3.40, once somebody has run ANALYZE, reads all rows at each claim to make a Bloom filter of them.
-- fragment: ready_from
FROM (
    WITH RECURSIVE level (priority) AS (
        SELECT max(priority) FROM _honker_live INDEXED BY _brant_live_ready
        WHERE queue = :queue AND state = 'pending'
        UNION ALL
        SELECT (
            SELECT max(lower.priority) FROM _honker_live AS lower INDEXED BY _brant_live_ready
            WHERE lower.queue = :queue AND lower.state = 'pending' AND lower.priority < level.priority
        )
        FROM level WHERE level.priority IS NOT NULL
    )
    SELECT priority FROM level WHERE likelihood(priority IS NOT NULL, 0.0)
) AS level
CROSS JOIN _honker_live AS job INDEXED BY _brant_live_ready
WHERE job.queue = :queue AND job.state = 'pending' AND job.priority = level.priority AND job.run_at <= :now
    AND job.attempts < job.max_attempts AND (job.expires_at IS NULL OR job.expires_at > :now)

-- name: enqueue
INSERT INTO _honker_live (id, queue, payload, priority, run_at, max_attempts, created_at, expires_at)
VALUES ({{next_job_id}}, :queue, :payload, :priority, :run_at, :max_attempts, :second, :expires_at)
RETURNING id, {{wants_events}}

-- name: enqueue_many
INSERT INTO _honker_live (id, queue, payload, priority, run_at, max_attempts, created_at, expires_at)
SELECT {{next_job_id}} + item.key, :queue, item.value, :priority, :run_at, :max_attempts, :second, :expires_at
FROM json_each(:payloads) AS item
RETURNING id

-- name: unique_holder
SELECT job_id FROM _brant_unique AS held
WHERE queue = :queue AND key = :key
    AND (expires_at > :now OR EXISTS (SELECT 1 FROM _honker_live WHERE id = held.job_id))

-- name: hold_unique
INSERT OR REPLACE INTO _brant_unique (queue, key, job_id, expires_at) VALUES (:queue, :key, :job_id, :expires_at)

-- A few a call, so that the table stays small and no call pays for all.
-- fragment: some_lapsed_unique
(queue, key) IN (
    SELECT queue, key FROM _brant_unique INDEXED BY _brant_unique_expiring WHERE expires_at <= :now LIMIT 10
)

-- A key whose time is over while its job is live is from then on held by the job alone.
-- name: outlive_unique
UPDATE _brant_unique SET expires_at = NULL
WHERE {{some_lapsed_unique}} AND EXISTS (SELECT 1 FROM _honker_live WHERE id = job_id)

-- name: drop_lapsed_unique
DELETE FROM _brant_unique
WHERE {{some_lapsed_unique}} AND NOT EXISTS (SELECT 1 FROM _honker_live WHERE id = job_id)

-- fragment: any_lapsed
EXISTS (
    SELECT 1 FROM _honker_live WHERE queue = :queue AND state = 'processing' AND claim_expires_at < :second
) OR EXISTS (
    SELECT 1 FROM _honker_live
    WHERE queue = :queue AND state = 'processing' AND claim_expires_at > :second AND claim_expires_at < :now
)

-- name: claim_upkeep
SELECT
    coalesce((SELECT paused FROM _brant_queues WHERE name = :queue), 0),
    coalesce((SELECT events FROM _brant_queues WHERE name = :queue), 0),
    {{any_lapsed}},
    EXISTS (
        SELECT 1 FROM _honker_live INDEXED BY _brant_live_exhausted
        WHERE queue = :queue AND state = 'pending' AND attempts >= max_attempts AND run_at <= :now
    ),
    (SELECT count(*) FROM (
        SELECT 1 FROM _honker_live INDEXED BY _brant_live_expiring
        WHERE queue = :queue AND state = 'pending' AND expires_at IS NOT NULL AND expires_at <= :now LIMIT 100
    )),
    {{has_limits}}

-- fragment: claimed_columns
{{job_columns}},
    CASE WHEN attempts > 1
    THEN (SELECT error FROM _brant_attempts WHERE job_id = _honker_live.id ORDER BY rowid DESC LIMIT 1) END

-- name: claim
UPDATE _honker_live
SET state = 'processing', worker_id = :worker, claim_expires_at = :lease_end, attempts = attempts + 1
WHERE id IN (SELECT job.id {{ready_from}} LIMIT :limit)
RETURNING {{claimed_columns}}

-- name: lapsed_jobs
SELECT id, attempts >= max_attempts, expires_at IS NOT NULL AND expires_at <= :now
FROM _honker_live INDEXED BY _honker_live_processing_deadline
WHERE queue = :queue AND state = 'processing' AND claim_expires_at < :now AND {{lapsed}}

-- name: note_lapsed
INSERT INTO _brant_attempts (job_id, attempt, worker_id, error, failed_at)
SELECT id, attempts, worker_id, 'the lease ran out: the worker died or stalled', :second
FROM _honker_live WHERE id IN (SELECT value FROM json_each(:ids))

-- name: free_lapsed
UPDATE _honker_live SET state = 'pending', worker_id = NULL, claim_expires_at = NULL
WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'processing'

-- name: exhausted_jobs
SELECT id FROM _honker_live INDEXED BY _brant_live_exhausted
WHERE queue = :queue AND state = 'pending' AND attempts >= max_attempts AND run_at <= :now LIMIT 1000

-- name: expired_jobs
SELECT id FROM _honker_live INDEXED BY _brant_live_expiring
WHERE queue = :queue AND state = 'pending' AND expires_at IS NOT NULL AND expires_at <= :now LIMIT 1000

-- name: bury
INSERT OR REPLACE INTO _honker_dead
    (id, queue, payload, priority, run_at, attempts, max_attempts, last_error, created_at, died_at)
SELECT id, queue, payload, priority, {{own_run_at}}, attempts, max_attempts, :error, created_at, :second
FROM _honker_live WHERE id IN (SELECT value FROM json_each(:ids))

-- name: drop_jobs
DELETE FROM _honker_live WHERE id IN (SELECT value FROM json_each(:ids))
RETURNING {{gone_columns}}

-- fragment: leases
FROM _honker_live INDEXED BY _honker_live_processing_deadline
WHERE queue = :queue AND state = 'processing' AND {{held}}

-- fragment: leases_to_retry
{{leases}} AND attempts < max_attempts AND (expires_at IS NULL OR expires_at > :now)

-- fragment: next_lease_end
(SELECT min(claim_expires_at) {{leases}} AND claim_expires_at >= :second)

-- fragment: next_lease_end_to_retry
(SELECT min(claim_expires_at) {{leases_to_retry}} AND claim_expires_at >= :second)

-- In the two that follow, the first two lease ends count: one in whole seconds holds to the end of its second, and a
-- fractional one may come before that.
-- name: claimable
SELECT
    coalesce((SELECT paused FROM _brant_queues WHERE name = :queue), 0),
    {{has_limits}},
    EXISTS (SELECT 1 {{ready_from}}) OR {{any_lapsed}} OR EXISTS (
        SELECT 1 FROM _honker_live INDEXED BY _brant_live_exhausted
        WHERE queue = :queue AND state = 'pending' AND attempts >= max_attempts AND run_at <= :now
    ),
    (
        SELECT min(run_at) FROM _honker_live
        WHERE queue = :queue AND state = 'pending' AND run_at > :now AND run_at < {{held_back}}
    ),
    (SELECT min(lease_end + (typeof(lease_end) = 'integer')) FROM (
        SELECT {{next_lease_end}} AS lease_end
        UNION ALL
        SELECT min(claim_expires_at) {{leases}} AND claim_expires_at > {{next_lease_end}}
    ))

-- name: next_claim_at
SELECT min(at) FROM (
    SELECT min(run_at) AS at FROM _honker_live
    WHERE queue = :queue AND state = 'pending' AND run_at > :now AND run_at < {{held_back}} AND attempts < max_attempts
        AND (expires_at IS NULL OR expires_at > :now)
    UNION ALL
    SELECT min(wake_at) FROM _brant_limits INDEXED BY _brant_limits_waking WHERE queue = :queue AND wake_at > :now
    UNION ALL
    SELECT min(lease_end + (typeof(lease_end) = 'integer')) FROM (
        SELECT {{next_lease_end_to_retry}} AS lease_end
        UNION ALL
        SELECT min(claim_expires_at) {{leases_to_retry}} AND claim_expires_at > {{next_lease_end_to_retry}}
    )
)

-- name: ack
DELETE FROM _honker_live WHERE {{owned}} RETURNING {{gone_columns}}

-- Without the batch: the look-up of each job's batch would show in the cost of large batches.
-- name: ack_many
DELETE FROM _honker_live
WHERE id IN (SELECT value FROM json_each(:ids)) AND worker_id = :worker AND {{held}}
RETURNING id, queue, attempts, {{wants_events}}

-- name: owned_job
SELECT {{job_columns}}, {{wants_events}} FROM _honker_live WHERE {{owned}}

-- name: reschedule
UPDATE _honker_live SET state = 'pending', run_at = :run_at, worker_id = NULL, claim_expires_at = NULL WHERE id = :id

-- name: note_error
INSERT INTO _brant_attempts (job_id, attempt, worker_id, error, failed_at)
VALUES (:id, :attempt, :worker, :error, :second)

-- name: attempt_errors
SELECT attempt, worker_id, error, failed_at FROM _brant_attempts WHERE job_id = :id ORDER BY rowid

-- How often the job whose id is in scope has failed, or has lost its lease, since it was last enqueued or requeued: what was
-- released leaves no error. A requeue counts the attempts anew and keeps the errors, so it shows where an error is not of a
-- later attempt than the one before; where it does not show, the errors of before count too.
-- fragment: times_failed
(
    SELECT count(*) - coalesce(max(CASE WHEN attempt <= attempt_before THEN place END), 1) + 1
    FROM (
        SELECT attempt, lag(attempt) OVER (ORDER BY rowid) AS attempt_before, row_number() OVER (ORDER BY rowid) AS place
        FROM _brant_attempts WHERE job_id = id
    )
)

-- name: times_failed
SELECT {{times_failed}} FROM _honker_live WHERE id = :id

-- name: extend
UPDATE _honker_live SET claim_expires_at = :lease_end WHERE {{owned}} AND state = 'processing' RETURNING id

-- Gives back what was leased and not used. The attempt does not count because the job may have one more, not by lowering
-- attempts: each claim raises that, and by it a late ack of this claim is told from one of the next.
-- name: release
UPDATE _honker_live
SET state = 'pending', worker_id = NULL, claim_expires_at = NULL, max_attempts = max_attempts + 1,
    run_at = coalesce(:run_at, run_at)
WHERE id IN (SELECT value FROM json_each(:ids)) AND worker_id = :worker AND state = 'processing' AND {{held}}
    AND (:attempt IS NULL OR attempts = :attempt)
RETURNING id

-- name: cancel
DELETE FROM _honker_live WHERE id = :id RETURNING {{gone_columns}}

-- name: get_job
SELECT
    id, queue, {{payload}}, state, priority, {{own_run_at}}, worker_id, claim_expires_at, attempts, max_attempts, created_at,
    expires_at
FROM _honker_live WHERE id = :id

-- name: last_job_id
SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = '_honker_live'

-- name: raise_last_job_id
UPDATE sqlite_sequence SET seq = :id WHERE name = '_honker_live' AND seq < :id
