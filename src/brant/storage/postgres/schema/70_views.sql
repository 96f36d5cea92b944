-- For people: times as times, flags as true and false. Jobs and dead jobs are with their tables.
CREATE OR REPLACE VIEW brant.events AS
    SELECT "offset", topic, key, payload, to_timestamp(created_at) AS created_at FROM brant._honker_stream;
CREATE OR REPLACE VIEW brant.consumers AS
    SELECT consumer.name, consumer.topic, consumer."offset", (
        SELECT count(*) FROM brant._honker_stream AS event
        WHERE event.topic = consumer.topic AND event."offset" > consumer."offset"
    ) AS events_left
    FROM brant._honker_stream_consumers AS consumer;
CREATE OR REPLACE VIEW brant.notifications AS
    SELECT id, channel, payload, to_timestamp(created_at) AS created_at FROM brant._honker_notifications;
CREATE OR REPLACE VIEW brant.queues AS
    SELECT name, paused = 1 AS paused, events = 1 AS events FROM brant._brant_queues;
CREATE OR REPLACE VIEW brant.aliases AS SELECT alias, target FROM brant._brant_aliases;
CREATE OR REPLACE VIEW brant.attempts AS
    SELECT job_id, attempt, worker_id, error, to_timestamp(failed_at) AS failed_at FROM brant._brant_attempts;
CREATE OR REPLACE VIEW brant.unique_keys AS
    SELECT queue, key, job_id, to_timestamp(expires_at) AS expires_at FROM brant._brant_unique;
CREATE OR REPLACE VIEW brant.locks AS
    SELECT name, owner, to_timestamp(expires_at) AS expires_at FROM brant._honker_locks;
CREATE OR REPLACE VIEW brant.rate_limits AS
    SELECT name, to_timestamp(window_start) AS window_start, count FROM brant._honker_rate_limits;
CREATE OR REPLACE VIEW brant.results AS
    SELECT job_id, value, to_timestamp(created_at) AS created_at, to_timestamp(expires_at) AS expires_at
    FROM brant._honker_results;
CREATE OR REPLACE VIEW brant.schedules AS
    SELECT task.name, task.queue, task.cron_expr, extra.tz, coalesce(extra.missed, 'all') AS missed, task.payload,
        task.priority, task.max_attempts, make_interval(secs => task.expires_s) AS expires_after,
        task.enabled = 1 AS enabled, to_timestamp(task.next_fire_at) AS next_fire_at,
        to_timestamp(extra.last_fire_at) AS last_fire_at, extra.error
    FROM brant._honker_scheduler_tasks AS task LEFT JOIN brant._brant_schedules AS extra ON extra.name = task.name;
CREATE OR REPLACE VIEW brant.limits AS
    SELECT limits.queue, limits.key, limits.max_running, limits.max_starts,
        make_interval(secs => limits.per_s) AS per,
        (
            SELECT count(*) FROM brant._brant_limited AS limited
            WHERE limited.queue = limits.queue AND limited.key = limits.key AND limited.running = 1
        ) AS running,
        (
            SELECT count(*) FROM brant._brant_limited AS limited
            WHERE limited.queue = limits.queue AND limited.key = limits.key AND limited.run_at IS NOT NULL
        ) AS held_back
    FROM brant._brant_limits AS limits;
CREATE OR REPLACE VIEW brant.batches AS
    SELECT id, note, total, succeeded, dead, cancelled, total - succeeded - dead - cancelled AS pending,
        sealed = 1 AS sealed, settled = 1 AS settled, then_queue, then_job_id, to_timestamp(created_at) AS created_at,
        to_timestamp(settled_at) AS settled_at, make_interval(secs => keep_s) AS kept_for
    FROM brant._brant_batches;
CREATE OR REPLACE VIEW brant.batch_jobs AS SELECT job_id, batch_id, state FROM brant._brant_batch_jobs;
