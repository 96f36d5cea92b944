-- fragment: live_names
SELECT name FROM (
    WITH RECURSIVE seen (name) AS (
        (SELECT min(queue) FROM brant._honker_live WHERE state = 'pending')
        UNION ALL
        SELECT (SELECT min(queue) FROM brant._honker_live WHERE state = 'pending' AND queue > seen.name)
        FROM seen WHERE seen.name IS NOT NULL
    )
    SELECT name FROM seen WHERE name IS NOT NULL
) AS pending
UNION SELECT name FROM (
    WITH RECURSIVE seen (name) AS (
        (SELECT min(queue) FROM brant._honker_live WHERE state = 'processing')
        UNION ALL
        SELECT (SELECT min(queue) FROM brant._honker_live WHERE state = 'processing' AND queue > seen.name)
        FROM seen WHERE seen.name IS NOT NULL
    )
    SELECT name FROM seen WHERE name IS NOT NULL
) AS processing
UNION SELECT name FROM brant._brant_queues

-- A name that another transaction is about to register is left to that one: to insert it too would be to wait for its
-- end. Should it be undone, the next one who enqueues registers the name.
-- name: register_queue
INSERT INTO brant._brant_queues (name)
SELECT CAST(:queue AS text)
WHERE CASE
    WHEN EXISTS (SELECT 1 FROM brant._brant_queues WHERE name = CAST(:queue AS text)) THEN false
    ELSE pg_try_advisory_xact_lock(hashtextextended(CAST(:queue AS text), 1651663217))
END
ON CONFLICT (name) DO NOTHING

-- name: forget_queue
DELETE FROM brant._brant_queues
WHERE name = :queue AND paused = 0 AND events = 0
    AND NOT EXISTS (SELECT 1 FROM brant._brant_limits WHERE queue = :queue AND key = '')

-- name: pause_queue
INSERT INTO brant._brant_queues AS known (name, paused) VALUES (:queue, :paused)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused WHERE known.paused <> excluded.paused

-- name: record_queue_events
INSERT INTO brant._brant_queues AS known (name, events) VALUES (:queue, :events)
ON CONFLICT (name) DO UPDATE SET events = excluded.events WHERE known.events <> excluded.events

-- name: queue_flags
SELECT paused, events FROM brant._brant_queues WHERE name = :queue

-- name: queue_names
SELECT name FROM ({{live_names}}) AS names ORDER BY name

-- name: queue_names_with_dead
SELECT name FROM (
    {{live_names}}
    UNION SELECT name FROM (
        WITH RECURSIVE seen (name) AS (
            (SELECT min(queue) FROM brant._honker_dead)
            UNION ALL
            SELECT (SELECT min(queue) FROM brant._honker_dead WHERE queue > seen.name)
            FROM seen WHERE seen.name IS NOT NULL
        )
        SELECT name FROM seen WHERE name IS NOT NULL
    ) AS dead
) AS names ORDER BY name

-- name: queue_stats
SELECT
    (SELECT count(*) FROM brant._honker_live WHERE queue = :queue AND state = 'pending'),
    (SELECT count(*) FROM brant._honker_live WHERE queue = :queue AND state = 'pending' AND run_at > :now),
    (SELECT count(*) FROM brant._honker_live WHERE queue = :queue AND state = 'processing'),
    (SELECT count(*) FROM brant._honker_dead WHERE queue = :queue),
    (SELECT min(run_at) FROM brant._honker_live WHERE queue = :queue AND state = 'pending' AND run_at <= :now),
    (
        SELECT min(run_at) FROM brant._honker_live
        WHERE queue = :queue AND state = 'pending' AND run_at > :now AND run_at < {{held_back}}
    ),
    coalesce((SELECT paused FROM brant._brant_queues WHERE name = :queue), 0)

-- name: queue_has_rows
SELECT EXISTS (SELECT 1 FROM brant._honker_live WHERE queue = :queue AND state = 'pending')
    OR EXISTS (SELECT 1 FROM brant._honker_live WHERE queue = :queue AND state = 'processing')

-- name: delete_queue
DELETE FROM brant._honker_live WHERE queue = :queue AND state IN ('pending', 'processing')
RETURNING {{gone_columns}}

-- fragment: in_range
(CAST(:after AS bigint) IS NULL OR job.id > CAST(:after AS bigint))
AND (CAST(:before AS bigint) IS NULL OR job.id < CAST(:before AS bigint))

-- fragment: pending_message
id = :id AND queue = :queue AND state = 'pending' AND run_at <= :now AND (expires_at IS NULL OR expires_at > :now)

-- fragment: message_columns
id, queue, {{payload}}, priority, run_at, attempts

-- The due rows with ids in the range, in order, locked.
-- fragment: in_range_locked
FROM {{levels}} CROSS JOIN LATERAL (
    SELECT * FROM brant._honker_live AS job WHERE {{ready}} AND {{in_range}} ORDER BY job.run_at, job.id LIMIT {{most}}
    FOR UPDATE SKIP LOCKED
) AS job

-- name: take
DELETE FROM brant._honker_live WHERE id = ANY (ARRAY(SELECT job.id {{in_range_locked}} LIMIT {{most}}))
RETURNING {{message_columns}}

-- name: take_id
DELETE FROM brant._honker_live WHERE {{pending_message}} RETURNING {{message_columns}}

-- Where there are batches: what will be taken is locked first, so that the same rows are marked and taken.
-- name: choose_to_take
SELECT job.id {{in_range_locked}} LIMIT {{most}}

-- name: choose_id_to_take
SELECT id FROM brant._honker_live WHERE {{pending_message}} FOR UPDATE

-- name: mark_chosen
UPDATE brant._brant_batch_jobs SET state = 'taking' WHERE job_id = ANY {{ids}} AND state = 'pending' RETURNING batch_id

-- name: take_chosen
DELETE FROM brant._honker_live WHERE id = ANY {{ids}} RETURNING {{message_columns}}

-- fragment: behind_seen
(CAST(:seen_id AS bigint) IS NULL OR job.priority < CAST(:seen_priority AS bigint)
    OR (job.priority = CAST(:seen_priority AS bigint)
        AND (job.run_at, job.id) > (CAST(:seen_run_at AS double precision), CAST(:seen_id AS bigint))))

-- name: peek
SELECT job.id, job.queue, job.payload, job.priority, job.run_at, job.attempts
FROM {{levels}} CROSS JOIN LATERAL (
    SELECT * FROM brant._honker_live AS job WHERE {{ready}} AND {{in_range}} AND {{behind_seen}}
    ORDER BY job.run_at, job.id LIMIT {{most}}
) AS job
LIMIT {{most}}

-- What the next claim or read will free: a peek may not, and has to show it all the same.
-- name: peek_lapsed
SELECT {{message_columns}} FROM brant._honker_live AS job
WHERE queue = :queue AND state = 'processing' AND claim_expires_at < :now AND {{lapsed}} AND run_at <= :now
    AND attempts < max_attempts AND (expires_at IS NULL OR expires_at > :now) AND {{in_range}} AND {{behind_seen}}
ORDER BY priority DESC, run_at, id LIMIT {{most}}

-- fragment: not_leased
(state = 'pending' OR (state = 'processing' AND {{lapsed}}))

-- name: peek_id
SELECT {{message_columns}} FROM brant._honker_live
WHERE id = :id AND queue = :queue AND {{not_leased}} AND run_at <= :now AND attempts < max_attempts
    AND (expires_at IS NULL OR expires_at > :now)

-- name: move
UPDATE brant._honker_live SET queue = :destination
WHERE id = ANY (ARRAY(SELECT job.id {{in_range_locked}} LIMIT {{most}}))
RETURNING {{message_columns}}

-- name: move_id
UPDATE brant._honker_live SET queue = :destination WHERE {{pending_message}} RETURNING {{message_columns}}

-- A key belongs to the queue that it was given in.
-- name: drop_unique_of
DELETE FROM brant._brant_unique WHERE job_id = ANY {{ids}}

-- name: delete_id
DELETE FROM brant._honker_live WHERE id = :id AND queue = :queue AND {{not_leased}}
RETURNING {{gone_columns}}

-- fragment: dead_columns
id, queue, {{payload}}, priority, run_at, attempts, max_attempts, last_error, created_at, died_at

-- name: list_dead
SELECT {{dead_columns}} FROM brant._honker_dead
WHERE queue = :queue AND id > :after ORDER BY id LIMIT {{most}}

-- name: get_dead
SELECT {{dead_columns}} FROM brant._honker_dead WHERE id = :id

-- The dead row is locked: of two who revive it at once, the second finds it gone.
-- With the attempts that it was enqueued with: each release has added one to them, and is an attempt without an error. A job
-- without any error is one that Honker has tried, which keeps none.
-- name: revive
WITH risen AS MATERIALIZED (
    SELECT id AS risen_id, queue AS risen_queue, payload AS risen_payload, priority AS risen_priority,
        greatest(1, max_attempts - greatest(0, attempts - coalesce(nullif({{times_failed}}, 0), attempts)))
            AS risen_max_attempts,
        created_at AS risen_created_at
    FROM brant._honker_dead WHERE id = ANY {{ids}} ORDER BY id FOR UPDATE
)
INSERT INTO brant._honker_live (id, queue, payload, priority, run_at, max_attempts, created_at)
SELECT risen_id, risen_queue, risen_payload, risen_priority, :second, risen_max_attempts, risen_created_at
FROM risen
RETURNING id, queue, attempts, {{wants_events}}

-- name: drop_dead
DELETE FROM brant._honker_dead WHERE id = ANY {{ids}}

-- name: purge_dead
DELETE FROM brant._honker_dead
WHERE queue = :queue
    AND (CAST(:died_before AS double precision) IS NULL OR died_at < CAST(:died_before AS double precision))

-- name: add_alias
INSERT INTO brant._brant_aliases (alias, target) VALUES (:alias, :target)

-- name: remove_alias
DELETE FROM brant._brant_aliases WHERE alias = :alias

-- name: alias_target
SELECT target FROM brant._brant_aliases WHERE alias = :alias

-- name: list_aliases
SELECT alias, target FROM brant._brant_aliases
WHERE CAST(:target AS text) IS NULL OR target = CAST(:target AS text) ORDER BY alias
