-- A verb by itself, as one statement that needs no BEGIN and no COMMIT around it. Each changes rows only where there is
-- nothing to do beside that; where it changes none, the verb is done in a transaction of several statements.

-- fragment: tells_nobody
(SELECT events = 0 FROM brant._brant_queues WHERE name = :queue)

-- fragment: rung
CASE WHEN CAST(:rings AS boolean) THEN CAST(pg_notify(:channel, :origin) AS text) END

-- name: enqueue_alone
INSERT INTO brant._honker_live (id, queue, payload, priority, run_at, max_attempts, created_at, expires_at)
SELECT brant._brant_take_ids('brant._brant_job_ids', :micros), CAST(:queue AS text), :payload, :priority, :run_at,
    :max_attempts, :second, CAST(:expires_at AS double precision)
WHERE {{tells_nobody}}
RETURNING id, {{rung}}

-- The ids follow each other, so that the first tells all.
-- name: enqueue_many_alone
WITH first AS MATERIALIZED (
    SELECT brant._brant_take_ids(
        'brant._brant_job_ids', :micros, json_array_length(CAST(:payloads AS json))
    ) AS first_id, {{rung}} AS rung
    WHERE {{tells_nobody}}
), added AS (
    INSERT INTO brant._honker_live (id, queue, payload, priority, run_at, max_attempts, created_at, expires_at)
    SELECT first.first_id + item.number - 1, CAST(:queue AS text), item.value, :priority, :run_at, :max_attempts,
        :second, CAST(:expires_at AS double precision)
    FROM first CROSS JOIN json_array_elements_text(CAST(:payloads AS json)) WITH ORDINALITY AS item (value, number)
)
SELECT first_id FROM first

-- Whether jobs come in the same order by the time since when they are due, or none is due for too long.
-- fragment: none_overdue
(
    :overdue = 0
    OR coalesce((
        SELECT run_at FROM brant._honker_live WHERE queue = :queue AND state = 'pending' ORDER BY run_at LIMIT 1
    ) >= CAST(:now AS double precision) - CAST(:max_wait AS double precision), true)
    OR (
        SELECT priority FROM brant._honker_live
        WHERE queue = :queue AND state = 'pending' ORDER BY priority DESC LIMIT 1
    ) = (
        SELECT priority FROM brant._honker_live
        WHERE queue = :queue AND state = 'pending' ORDER BY priority LIMIT 1
    )
)

-- name: claim_alone
UPDATE brant._honker_live
SET state = 'processing', worker_id = :worker, claim_expires_at = :lease_end, attempts = attempts + 1
WHERE (SELECT paused = 0 AND events = 0 FROM brant._brant_queues WHERE name = :queue)
    AND NOT {{has_limits}} AND NOT {{any_lapsed}} AND NOT {{any_exhausted}} AND {{few_expired}} < 100
    AND {{none_overdue}}
    AND id = ANY (ARRAY(SELECT job.id {{ready_locked}} LIMIT {{most}}))
RETURNING {{claimed_columns}}

-- What is due for too long is looked for another time.
-- name: claim_above_alone
UPDATE brant._honker_live
SET state = 'processing', worker_id = :worker, claim_expires_at = :lease_end, attempts = attempts + 1
WHERE (SELECT paused = 0 AND events = 0 FROM brant._brant_queues WHERE name = :queue) AND NOT {{has_limits}}
    AND id = ANY {{chosen_above}}
RETURNING {{claimed_columns}}

-- name: ack_alone
DELETE FROM brant._honker_live
WHERE {{owned}} AND {{wants_events}} = 0 AND NOT EXISTS (SELECT 1 FROM brant._brant_batch_jobs WHERE job_id = :id)
RETURNING id

-- All of them or none: who gets none asks again.
-- name: ack_many_alone
DELETE FROM brant._honker_live
WHERE id = ANY {{ids}} AND worker_id = :worker AND {{held}}
    AND NOT EXISTS (SELECT 1 FROM brant._brant_queues WHERE events = 1)
    AND NOT EXISTS (SELECT 1 FROM brant._brant_batch_jobs)
RETURNING id
