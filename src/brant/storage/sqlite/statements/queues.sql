-- fragment: live_names
SELECT name FROM (
    WITH RECURSIVE seen (name) AS (
        SELECT min(queue) FROM _honker_live WHERE state IN ('pending', 'processing')
        UNION ALL
        SELECT (SELECT min(queue) FROM _honker_live WHERE state IN ('pending', 'processing') AND queue > seen.name)
        FROM seen WHERE seen.name IS NOT NULL
    )
    SELECT name FROM seen WHERE name IS NOT NULL
)
UNION SELECT name FROM _brant_queues

-- name: register_queue
INSERT OR IGNORE INTO _brant_queues (name) VALUES (:queue)

-- name: forget_queue
DELETE FROM _brant_queues
WHERE name = :queue AND paused = 0 AND events = 0
    AND NOT EXISTS (SELECT 1 FROM _brant_limits WHERE queue = :queue AND key = '')

-- name: pause_queue
INSERT INTO _brant_queues (name, paused) VALUES (:queue, :paused)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused WHERE paused <> excluded.paused

-- name: record_queue_events
INSERT INTO _brant_queues (name, events) VALUES (:queue, :events)
ON CONFLICT (name) DO UPDATE SET events = excluded.events WHERE events <> excluded.events

-- name: queue_flags
SELECT paused, events FROM _brant_queues WHERE name = :queue

-- name: queue_names
{{live_names}} ORDER BY name

-- name: queue_names_with_dead
{{live_names}}
UNION SELECT name FROM (
    WITH RECURSIVE seen (name) AS (
        SELECT min(queue) FROM _honker_dead
        UNION ALL
        SELECT (SELECT min(queue) FROM _honker_dead WHERE queue > seen.name) FROM seen WHERE seen.name IS NOT NULL
    )
    SELECT name FROM seen WHERE name IS NOT NULL
)
ORDER BY name

-- name: queue_stats
SELECT
    (SELECT count(*) FROM _honker_live WHERE queue = :queue AND state = 'pending'),
    (SELECT count(*) FROM _honker_live WHERE queue = :queue AND state = 'pending' AND run_at > :now),
    (SELECT count(*) FROM _honker_live WHERE queue = :queue AND state = 'processing'),
    (SELECT count(*) FROM _honker_dead WHERE queue = :queue),
    (SELECT min(run_at) FROM _honker_live WHERE queue = :queue AND state = 'pending' AND run_at <= :now),
    (
        SELECT min(run_at) FROM _honker_live
        WHERE queue = :queue AND state = 'pending' AND run_at > :now AND run_at < {{held_back}}
    ),
    coalesce((SELECT paused FROM _brant_queues WHERE name = :queue), 0)

-- name: queue_has_rows
SELECT EXISTS (SELECT 1 FROM _honker_live WHERE queue = :queue AND state IN ('pending', 'processing'))

-- name: delete_queue
DELETE FROM _honker_live WHERE queue = :queue AND state IN ('pending', 'processing')
RETURNING {{gone_columns}}

-- fragment: in_range
(:after IS NULL OR job.id > :after) AND (:before IS NULL OR job.id < :before)

-- fragment: pending_message
id = :id AND queue = :queue AND state = 'pending' AND run_at <= :now AND (expires_at IS NULL OR expires_at > :now)

-- fragment: message_columns
id, queue, {{payload}}, priority, run_at, attempts

-- name: take
DELETE FROM _honker_live WHERE id IN (SELECT job.id {{ready_from}} AND {{in_range}} LIMIT :limit)
RETURNING {{message_columns}}

-- name: take_id
DELETE FROM _honker_live WHERE {{pending_message}} RETURNING {{message_columns}}

-- fragment: behind_seen
(:seen_id IS NULL OR job.priority < :seen_priority
    OR (job.priority = :seen_priority AND (job.run_at, job.id) > (:seen_run_at, :seen_id)))

-- name: peek
SELECT job.id, job.queue, CAST(job.payload AS BLOB), job.priority, job.run_at, job.attempts
{{ready_from}} AND {{in_range}} AND {{behind_seen}}
LIMIT :limit

-- What the next claim or read will free: a peek may not, and has to show it all the same.
-- name: peek_lapsed
SELECT {{message_columns}} FROM _honker_live AS job INDEXED BY _honker_live_processing_deadline
WHERE queue = :queue AND state = 'processing' AND claim_expires_at < :now AND {{lapsed}} AND run_at <= :now
    AND attempts < max_attempts AND (expires_at IS NULL OR expires_at > :now) AND {{in_range}} AND {{behind_seen}}
ORDER BY priority DESC, run_at, id LIMIT :limit

-- fragment: not_leased
(state = 'pending' OR (state = 'processing' AND {{lapsed}}))

-- name: peek_id
SELECT {{message_columns}} FROM _honker_live
WHERE id = :id AND queue = :queue AND {{not_leased}} AND run_at <= :now AND attempts < max_attempts
    AND (expires_at IS NULL OR expires_at > :now)

-- name: move
UPDATE _honker_live SET queue = :destination
WHERE id IN (SELECT job.id {{ready_from}} AND {{in_range}} LIMIT :limit)
RETURNING id, queue, {{payload}}, priority, run_at, attempts

-- name: move_id
UPDATE _honker_live SET queue = :destination WHERE {{pending_message}} RETURNING {{message_columns}}

-- A key belongs to the queue that it was given in.
-- name: drop_unique_of
DELETE FROM _brant_unique WHERE job_id IN (SELECT value FROM json_each(:ids))

-- name: delete_id
DELETE FROM _honker_live WHERE id = :id AND queue = :queue AND {{not_leased}}
RETURNING {{gone_columns}}

-- fragment: dead_columns
id, queue, {{payload}}, priority, run_at, attempts, max_attempts, last_error, created_at, died_at

-- name: list_dead
SELECT {{dead_columns}} FROM _honker_dead INDEXED BY _brant_dead_queue
WHERE queue = :queue AND id > :after ORDER BY id LIMIT :limit

-- name: get_dead
SELECT {{dead_columns}} FROM _honker_dead WHERE id = :id

-- With the attempts that it was enqueued with: each release has added one to them, and is an attempt without an error. A job
-- without any error is one that Honker has tried, which keeps none.
-- name: revive
INSERT INTO _honker_live (id, queue, payload, priority, run_at, max_attempts, created_at)
SELECT id, queue, payload, priority, :second,
    max(1, max_attempts - max(0, attempts - coalesce(nullif({{times_failed}}, 0), attempts))), created_at
FROM _honker_dead WHERE id IN (SELECT value FROM json_each(:ids))
RETURNING id, queue, attempts, {{wants_events}}

-- name: drop_dead
DELETE FROM _honker_dead WHERE id IN (SELECT value FROM json_each(:ids))

-- name: purge_dead
DELETE FROM _honker_dead INDEXED BY _brant_dead_queue WHERE queue = :queue AND (:died_before IS NULL OR died_at < :died_before)

-- name: add_alias
INSERT INTO _brant_aliases (alias, target) VALUES (:alias, :target)

-- name: remove_alias
DELETE FROM _brant_aliases WHERE alias = :alias

-- name: alias_target
SELECT target FROM _brant_aliases WHERE alias = :alias

-- name: list_aliases
SELECT alias, target FROM _brant_aliases WHERE :target IS NULL OR target = :target ORDER BY alias
