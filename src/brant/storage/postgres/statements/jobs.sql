-- A list of ids comes as JSON text. As an array, for `id = ANY {{ids}}`: however large the table and whatever is known of
-- it, that is looked up by the index, while a subquery may be joined by reading all.
-- fragment: ids
(ARRAY(SELECT CAST(value AS bigint) FROM json_array_elements_text(CAST(:ids AS json))))

-- A negative limit stands for all. A subquery, since the planner would otherwise find a plan for each limit cheaper than
-- one for all, and make one at every claim, which takes longer than the claim.
-- fragment: most
(SELECT CASE WHEN :limit >= 0 THEN :limit END)

-- A lease in whole seconds holds to the end of its last second; a fractional one ends when it says.
-- fragment: held
(claim_expires_at >= :now OR claim_expires_at = :second)

-- The complement of "held".
-- fragment: lapsed
(claim_expires_at < :second OR (claim_expires_at > :second AND claim_expires_at < :now))

-- fragment: owned
id = :id AND worker_id = :worker AND {{held}}
AND (CAST(:attempt AS bigint) IS NULL OR attempts = CAST(:attempt AS bigint))

-- fragment: payload
payload

-- fragment: job_columns
id, queue, {{payload}}, state, priority, run_at, worker_id, claim_expires_at, attempts, max_attempts, created_at, expires_at

-- Also of a job that its limit holds back.
-- fragment: own_run_at
coalesce((SELECT limited.run_at FROM brant._brant_limited AS limited WHERE limited.job_id = id), run_at)

-- fragment: wants_events
(SELECT events FROM brant._brant_queues WHERE name = queue)

-- What is told of a job that is deleted.
-- fragment: gone_columns
id, queue, attempts, {{wants_events}}, (SELECT batch_id FROM brant._brant_batch_jobs WHERE job_id = id)

-- The priorities that pending jobs have, one by one from the highest: each is found by a seek, so that rows which are
-- not due are never walked.
-- fragment: levels
(
    WITH RECURSIVE level (priority) AS (
        (
            SELECT priority FROM brant._honker_live
            WHERE queue = :queue AND state = 'pending' ORDER BY priority DESC LIMIT 1
        )
        UNION ALL
        SELECT (
            SELECT lower.priority FROM brant._honker_live AS lower
            WHERE lower.queue = :queue AND lower.state = 'pending' AND lower.priority < level.priority
            ORDER BY lower.priority DESC LIMIT 1
        )
        FROM level WHERE level.priority IS NOT NULL
    )
    SELECT priority FROM level WHERE priority IS NOT NULL
) AS level

-- Now, as a subquery for the same reason as the limit: how many rows are due the planner is not to know beforehand.
-- fragment: at
(SELECT CAST(:now AS double precision))

-- What may run now, of one priority.
-- fragment: ready
job.queue = :queue AND job.state = 'pending' AND job.priority = level.priority AND job.run_at <= {{at}}
AND job.attempts < job.max_attempts AND (job.expires_at IS NULL OR job.expires_at > :now)

-- In the order of a claim, since the levels come in order, and the rows of each do.
-- fragment: ready_from
FROM {{levels}} CROSS JOIN LATERAL (
    SELECT * FROM brant._honker_live AS job WHERE {{ready}} ORDER BY job.run_at, job.id LIMIT {{most}}
) AS job

-- The same, locked; rows that somebody else has locked are passed over.
-- fragment: ready_locked
FROM {{levels}} CROSS JOIN LATERAL (
    SELECT * FROM brant._honker_live AS job WHERE {{ready}} ORDER BY job.run_at, job.id LIMIT {{most}}
    FOR UPDATE SKIP LOCKED
) AS job

-- name: enqueue
INSERT INTO brant._honker_live (id, queue, payload, priority, run_at, max_attempts, created_at, expires_at)
VALUES (
    brant._brant_take_ids('brant._brant_job_ids', :micros), :queue, :payload, :priority, :run_at, :max_attempts,
    :second, :expires_at
)
RETURNING id, {{wants_events}}

-- name: enqueue_many
WITH first AS MATERIALIZED (
    SELECT brant._brant_take_ids(
        'brant._brant_job_ids', :micros, json_array_length(CAST(:payloads AS json))
    ) AS first_id
)
INSERT INTO brant._honker_live (id, queue, payload, priority, run_at, max_attempts, created_at, expires_at)
SELECT first.first_id + item.number - 1, :queue, item.value, :priority, :run_at, :max_attempts, :second, :expires_at
FROM first CROSS JOIN json_array_elements_text(CAST(:payloads AS json)) WITH ORDINALITY AS item (value, number)
RETURNING id

-- Held to the end of the transaction: who wants the same key has to know how this one ends.
-- name: lock_unique
SELECT pg_advisory_xact_lock(hashtextextended(CAST(:queue AS text) || chr(1) || CAST(:key AS text), 1651663215))

-- name: unique_holder
SELECT job_id FROM brant._brant_unique AS held
WHERE queue = :queue AND key = :key
    AND (expires_at > :now OR EXISTS (SELECT 1 FROM brant._honker_live WHERE id = held.job_id))

-- name: hold_unique
INSERT INTO brant._brant_unique (queue, key, job_id, expires_at) VALUES (:queue, :key, :job_id, :expires_at)
ON CONFLICT (queue, key) DO UPDATE SET job_id = excluded.job_id, expires_at = excluded.expires_at

-- A few a call, so that the table stays small and no call pays for all; those that somebody uses are left.
-- fragment: some_lapsed_unique
(queue, key) IN (
    SELECT queue, key FROM brant._brant_unique WHERE expires_at <= :now LIMIT 100 FOR UPDATE SKIP LOCKED
)

-- A key whose time is over while its job is live is from then on held by the job alone.
-- name: outlive_unique
UPDATE brant._brant_unique SET expires_at = NULL
WHERE {{some_lapsed_unique}} AND EXISTS (SELECT 1 FROM brant._honker_live WHERE id = job_id)

-- name: drop_lapsed_unique
DELETE FROM brant._brant_unique
WHERE {{some_lapsed_unique}} AND NOT EXISTS (SELECT 1 FROM brant._honker_live WHERE id = job_id)

-- The first row in the order of an index is compared, rather than asking for one below a bound: how many those are the
-- planner can only guess, and where it guesses many it reads the table for the first of them.
-- fragment: any_lapsed
(coalesce((
    SELECT claim_expires_at FROM brant._honker_live
    WHERE queue = :queue AND state = 'processing' ORDER BY claim_expires_at LIMIT 1
) < :second, false) OR coalesce((
    SELECT claim_expires_at FROM brant._honker_live
    WHERE queue = :queue AND state = 'processing' AND claim_expires_at > :second ORDER BY claim_expires_at LIMIT 1
) < :now, false))

-- fragment: exhausted
queue = :queue AND state = 'pending' AND attempts >= max_attempts AND run_at <= {{at}}

-- Counted, not only asked for: the planner then takes the index that holds these and nothing else. They are few, since
-- each claim buries them all.
-- fragment: any_exhausted
(SELECT count(*) > 0 FROM brant._honker_live WHERE {{exhausted}})

-- How many have expired, as far as it matters.
-- fragment: few_expired
(SELECT count(*) FROM (
    SELECT 1 FROM brant._honker_live
    WHERE queue = :queue AND state = 'pending' AND expires_at IS NOT NULL AND expires_at <= {{at}}
    ORDER BY expires_at LIMIT 100
) AS expired)

-- name: claim_upkeep
SELECT
    coalesce((SELECT paused FROM brant._brant_queues WHERE name = :queue), 0),
    coalesce((SELECT events FROM brant._brant_queues WHERE name = :queue), 0),
    {{any_lapsed}},
    {{any_exhausted}},
    {{few_expired}},
    {{has_limits}}

-- fragment: claimed_columns
{{job_columns}},
    CASE WHEN attempts > 1 THEN (
        SELECT error FROM brant._brant_attempts WHERE job_id = id ORDER BY number DESC LIMIT 1
    ) END

-- name: claim
UPDATE brant._honker_live
SET state = 'processing', worker_id = :worker, claim_expires_at = :lease_end, attempts = attempts + 1
WHERE id = ANY (ARRAY(SELECT job.id {{ready_locked}} LIMIT {{most}}))
RETURNING {{claimed_columns}}

-- The priorities that are known to have jobs, from the highest, and of each the first row that may be live.
-- fragment: known_levels
(
    SELECT CAST(item.value ->> 0 AS bigint) AS priority, CAST(item.value ->> 1 AS double precision) AS run_at,
        CAST(item.value ->> 2 AS bigint) AS id
    FROM json_array_elements(CAST(:floor AS json)) AS item
) AS level

-- fragment: above
{{ready}} AND (job.run_at, job.id) >= (level.run_at, level.id)

-- fragment: chosen_above
(ARRAY(
    SELECT job.id FROM {{known_levels}} CROSS JOIN LATERAL (
        SELECT * FROM brant._honker_live AS job WHERE {{above}} ORDER BY job.run_at, job.id LIMIT {{most}}
        FOR UPDATE SKIP LOCKED
    ) AS job
    LIMIT {{most}}
))

-- name: claim_above
UPDATE brant._honker_live
SET state = 'processing', worker_id = :worker, claim_expires_at = :lease_end, attempts = attempts + 1
WHERE id = ANY {{chosen_above}}
RETURNING {{claimed_columns}}

-- name: claim_flags
SELECT
    coalesce((SELECT paused FROM brant._brant_queues WHERE name = :queue), 0),
    coalesce((SELECT events FROM brant._brant_queues WHERE name = :queue), 0),
    {{has_limits}}

-- The first row of each priority.
-- name: first_pending
WITH RECURSIVE level (priority, run_at, id) AS (
    (
        SELECT priority, run_at, id FROM brant._honker_live
        WHERE queue = :queue AND state = 'pending' ORDER BY priority DESC, run_at, id LIMIT 1
    )
    UNION ALL
    SELECT lower.priority, lower.run_at, lower.id FROM level CROSS JOIN LATERAL (
        SELECT priority, run_at, id FROM brant._honker_live AS job
        WHERE job.queue = :queue AND job.state = 'pending' AND job.priority < level.priority
        ORDER BY job.priority DESC, job.run_at, job.id LIMIT 1
    ) AS lower
)
SELECT priority, run_at, id FROM level

-- name: lapsed_jobs
SELECT id, attempts >= max_attempts, expires_at IS NOT NULL AND expires_at <= :now
FROM brant._honker_live
WHERE queue = :queue AND state = 'processing' AND claim_expires_at < :now AND {{lapsed}}
ORDER BY claim_expires_at
FOR UPDATE SKIP LOCKED

-- name: note_lapsed
INSERT INTO brant._brant_attempts (job_id, attempt, worker_id, error, failed_at)
SELECT id, attempts, worker_id, 'the lease ran out: the worker died or stalled', :second
FROM brant._honker_live WHERE id = ANY {{ids}}

-- name: free_lapsed
UPDATE brant._honker_live SET state = 'pending', worker_id = NULL, claim_expires_at = NULL
WHERE id = ANY {{ids}} AND state = 'processing'

-- name: exhausted_jobs
SELECT id FROM brant._honker_live
WHERE id = ANY (ARRAY(SELECT id FROM brant._honker_live WHERE {{exhausted}})) AND {{exhausted}} LIMIT 1000
FOR UPDATE SKIP LOCKED

-- name: expired_jobs
SELECT id FROM brant._honker_live
WHERE queue = :queue AND state = 'pending' AND expires_at IS NOT NULL AND expires_at <= :now
ORDER BY expires_at LIMIT 1000
FOR UPDATE SKIP LOCKED

-- name: bury
INSERT INTO brant._honker_dead
    (id, queue, payload, priority, run_at, attempts, max_attempts, last_error, created_at, died_at)
SELECT id, queue, payload, priority, {{own_run_at}}, attempts, max_attempts, :error, created_at, :second
FROM brant._honker_live WHERE id = ANY {{ids}}
ON CONFLICT (id) DO UPDATE
SET queue = excluded.queue, payload = excluded.payload, priority = excluded.priority, run_at = excluded.run_at,
    attempts = excluded.attempts, max_attempts = excluded.max_attempts, last_error = excluded.last_error,
    created_at = excluded.created_at, died_at = excluded.died_at

-- name: drop_jobs
DELETE FROM brant._honker_live WHERE id = ANY {{ids}}
RETURNING {{gone_columns}}

-- fragment: leases
FROM brant._honker_live WHERE queue = :queue AND state = 'processing' AND {{held}}

-- fragment: leases_to_retry
{{leases}} AND attempts < max_attempts AND (expires_at IS NULL OR expires_at > :now)

-- fragment: next_lease_end
(SELECT min(claim_expires_at) {{leases}} AND claim_expires_at >= :second)

-- fragment: next_lease_end_to_retry
(SELECT min(claim_expires_at) {{leases_to_retry}} AND claim_expires_at >= :second)

-- fragment: end_of_lease
(lease_end + CASE WHEN lease_end = floor(lease_end) THEN 1 ELSE 0 END)

-- In the two that follow, the first two lease ends count: one in whole seconds holds to the end of its second, and a
-- fractional one may come before that.
-- name: claimable
SELECT
    coalesce((SELECT paused FROM brant._brant_queues WHERE name = :queue), 0),
    {{has_limits}},
    EXISTS (
        SELECT 1 FROM {{levels}} CROSS JOIN LATERAL (
            SELECT 1 FROM brant._honker_live AS job WHERE {{ready}} ORDER BY job.run_at, job.id LIMIT 1
        ) AS job
    ) OR {{any_lapsed}} OR {{any_exhausted}},
    (
        SELECT min(run_at) FROM brant._honker_live
        WHERE queue = :queue AND state = 'pending' AND run_at > :now AND run_at < {{held_back}}
    ),
    (SELECT min({{end_of_lease}}) FROM (
        SELECT {{next_lease_end}} AS lease_end
        UNION ALL
        SELECT min(claim_expires_at) {{leases}} AND claim_expires_at > {{next_lease_end}}
    ) AS ends)

-- name: claimable_above
SELECT
    coalesce((SELECT paused FROM brant._brant_queues WHERE name = :queue), 0),
    {{has_limits}},
    EXISTS (
        SELECT 1 FROM {{known_levels}} CROSS JOIN LATERAL (
            SELECT 1 FROM brant._honker_live AS job WHERE {{above}} ORDER BY job.run_at, job.id LIMIT 1
        ) AS job
    ),
    (
        SELECT min(run_at) FROM brant._honker_live
        WHERE queue = :queue AND state = 'pending' AND run_at > :now AND run_at < {{held_back}}
    )

-- name: next_claim_at
SELECT min(at) FROM (
    SELECT min(run_at) AS at FROM brant._honker_live
    WHERE queue = :queue AND state = 'pending' AND run_at > :now AND run_at < {{held_back}} AND attempts < max_attempts
        AND (expires_at IS NULL OR expires_at > :now)
    UNION ALL
    SELECT min(wake_at) FROM brant._brant_limits WHERE queue = :queue AND wake_at > :now
    UNION ALL
    SELECT min({{end_of_lease}}) FROM (
        SELECT {{next_lease_end_to_retry}} AS lease_end
        UNION ALL
        SELECT min(claim_expires_at) {{leases_to_retry}} AND claim_expires_at > {{next_lease_end_to_retry}}
    ) AS ends
) AS moments

-- name: ack
DELETE FROM brant._honker_live WHERE {{owned}} RETURNING {{gone_columns}}

-- Without the batch: the look-up of each job's batch would show in the cost of large batches.
-- name: ack_many
DELETE FROM brant._honker_live
WHERE id = ANY {{ids}} AND worker_id = :worker AND {{held}}
RETURNING id, queue, attempts, {{wants_events}}

-- name: owned_job
SELECT {{job_columns}}, {{wants_events}} FROM brant._honker_live WHERE {{owned}} FOR UPDATE

-- name: reschedule
UPDATE brant._honker_live SET state = 'pending', run_at = :run_at, worker_id = NULL, claim_expires_at = NULL
WHERE id = :id

-- name: note_error
INSERT INTO brant._brant_attempts (job_id, attempt, worker_id, error, failed_at)
VALUES (:id, :attempt, :worker, :error, :second)

-- name: attempt_errors
SELECT attempt, worker_id, error, failed_at FROM brant._brant_attempts WHERE job_id = :id ORDER BY number

-- Who owns a lease has the job in processing. The state is not asked for, here and in what follows: it would let the
-- planner walk the index of all that is in processing.
-- name: restart_leases
UPDATE brant._honker_live SET claim_expires_at = :lease_end WHERE id = ANY {{ids}}

-- How often the job whose id is in scope has failed, or has lost its lease, since it was last enqueued or requeued: what was
-- released leaves no error. A requeue counts the attempts anew and keeps the errors, so it shows where an error is not of a
-- later attempt than the one before; where it does not show, the errors of before count too.
-- fragment: times_failed
(
    SELECT count(*) - coalesce(max(CASE WHEN attempt <= attempt_before THEN place END), 1) + 1
    FROM (
        SELECT attempt, lag(attempt) OVER (ORDER BY number) AS attempt_before, row_number() OVER (ORDER BY number) AS place
        FROM brant._brant_attempts WHERE job_id = id
    ) AS failed
)

-- name: times_failed
SELECT {{times_failed}} FROM brant._honker_live WHERE id = :id

-- name: extend
UPDATE brant._honker_live SET claim_expires_at = :lease_end WHERE {{owned}} RETURNING id

-- Gives back what was leased and not used. The attempt does not count because the job may have one more, not by lowering
-- attempts: each claim raises that, and by it a late ack of this claim is told from one of the next.
-- name: release
UPDATE brant._honker_live
SET state = 'pending', worker_id = NULL, claim_expires_at = NULL, max_attempts = max_attempts + 1,
    run_at = coalesce(CAST(:run_at AS double precision), run_at)
WHERE id = ANY {{ids}} AND worker_id = :worker AND {{held}}
    AND (CAST(:attempt AS bigint) IS NULL OR attempts = CAST(:attempt AS bigint))
RETURNING id

-- name: cancel
DELETE FROM brant._honker_live WHERE id = :id RETURNING {{gone_columns}}

-- name: get_job
SELECT
    id, queue, {{payload}}, state, priority, {{own_run_at}}, worker_id, claim_expires_at, attempts, max_attempts, created_at,
    expires_at
FROM brant._honker_live WHERE id = :id

-- name: last_job_id
SELECT last_value FROM brant._brant_job_ids

-- name: raise_last_job_id
SELECT brant._brant_raise_ids('brant._brant_job_ids', :id)
