CREATE OR REPLACE FUNCTION brant.honker_scheduler_register(
    name text, queue text, expr text, payload text, priority bigint, expires_s bigint, max_attempts bigint DEFAULT 3
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    known record;
    next_fire double precision;
BEGIN
    PERFORM brant._brant_require(
        'honker_scheduler_register', name IS NOT NULL, queue IS NOT NULL, expr IS NOT NULL, payload IS NOT NULL,
        priority IS NOT NULL, true, max_attempts IS NOT NULL
    );
    expr := btrim(expr, E' \t\n\r\f\v');
    PERFORM 1 FROM brant._honker_scheduler_tasks AS task WHERE task.name = honker_scheduler_register.name FOR UPDATE;
    SELECT task.cron_expr, task.next_fire_at, extra.tz, extra.error INTO known
    FROM brant._honker_scheduler_tasks AS task LEFT JOIN brant._brant_schedules AS extra ON extra.name = task.name
    WHERE task.name = honker_scheduler_register.name;
    -- Zone and policy are Brant's own, and a caller who does not know of them must not reset them. An overdue fire is kept.
    next_fire := brant._brant_cron_next(expr, known.tz, CAST(floor(brant._brant_now()) AS bigint));
    IF known.cron_expr = expr AND known.error IS NULL THEN
        next_fire := known.next_fire_at;
    END IF;
    INSERT INTO brant._honker_scheduler_tasks AS task
        (name, queue, cron_expr, payload, priority, expires_s, next_fire_at, max_attempts)
    VALUES (name, queue, expr, payload, priority, expires_s, next_fire, greatest(max_attempts, 1))
    ON CONFLICT ON CONSTRAINT _honker_scheduler_tasks_pkey DO UPDATE SET
        queue = excluded.queue, cron_expr = excluded.cron_expr, payload = excluded.payload,
        priority = excluded.priority, expires_s = excluded.expires_s, next_fire_at = excluded.next_fire_at,
        max_attempts = excluded.max_attempts;
    INSERT INTO brant._brant_schedules (name) VALUES (name)
    ON CONFLICT ON CONSTRAINT _brant_schedules_pkey DO UPDATE SET error = NULL;
    PERFORM brant._brant_ring();
    RETURN 1;
END
$$;

CREATE OR REPLACE FUNCTION brant.honker_scheduler_unregister(name text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM brant._brant_require('honker_scheduler_unregister', name IS NOT NULL);
    DELETE FROM brant._brant_schedules AS extra WHERE extra.name = honker_scheduler_unregister.name;
    DELETE FROM brant._honker_scheduler_tasks AS task WHERE task.name = honker_scheduler_unregister.name;
    RETURN CAST(FOUND AS integer);
END
$$;

-- The times from the next fire until `until`, at most 64, and behind them the first one after it.
CREATE OR REPLACE FUNCTION brant._brant_due_times(expr text, tz text, next_fire bigint, until bigint) RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    due bigint[] := '{}';
    boundary bigint := next_fire;
BEGIN
    WHILE boundary <= until LOOP
        IF cardinality(due) = 64 THEN
            -- Not the first after `until`: an interval goes on in its own step.
            RETURN due || brant._brant_cron_next(expr, tz, brant._brant_newest(expr, tz, due, until));
        END IF;
        due := due || boundary;
        boundary := brant._brant_cron_next(expr, tz, boundary);
    END LOOP;
    RETURN due || boundary;
END
$$;

-- The last time until `until`, which lies beyond the `due` ones if there are as many as are ever made up for.
CREATE OR REPLACE FUNCTION brant._brant_newest(expr text, tz text, due bigint[], until bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    before bigint := due[cardinality(due)] - 1;
    behind bigint := until;
    middle bigint;
    interval_s bigint;
BEGIN
    IF cardinality(due) < 64 THEN
        RETURN due[cardinality(due)];
    END IF;
    IF lower(left(btrim(expr, E' \t\n\r\f\v'), 6)) = '@every' THEN
        interval_s := brant._brant_cron_next(expr, tz, 0);
        RETURN until - (until - due[cardinality(due)]) % interval_s;
    END IF;
    -- The first moment after which nothing comes any more until then.
    WHILE behind - before > 1 LOOP
        middle := (before + behind) / 2;
        IF brant._brant_cron_next(expr, tz, middle) > until THEN
            behind := middle;
        ELSE
            before := middle;
        END IF;
    END LOOP;
    RETURN CASE WHEN behind = due[cardinality(due)] THEN behind ELSE brant._brant_cron_next(expr, tz, behind - 1) END;
END
$$;

-- Enqueues what is due of one schedule, each time once, and moves on; gives JSON of each fire.
CREATE OR REPLACE FUNCTION brant._brant_fire(
    task brant._honker_scheduler_tasks, tz text, missed text, until bigint
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    times bigint[] := brant._brant_due_times(task.cron_expr, tz, CAST(task.next_fire_at AS bigint), until);
    following bigint := times[cardinality(times)];
    due bigint[] := times[:cardinality(times) - 1];
    boundary bigint;
    fires text[] := '{}';
BEGIN
    IF missed <> 'all' THEN
        due := ARRAY[brant._brant_newest(task.cron_expr, tz, due, until)];
        -- How late a fire may be and still count as on time.
        IF missed = 'skip' AND until - due[1] > 60 THEN
            due := '{}';
        END IF;
    END IF;
    FOREACH boundary IN ARRAY due LOOP
        fires := fires || (
            SELECT CAST(row_to_json(fire) AS text) FROM (
                SELECT boundary AS fire_at, brant._brant_enqueue(
                    task.queue, task.payload, floor(brant._brant_now()), task.priority, task.max_attempts,
                    floor(brant._brant_now()) + task.expires_s
                ) AS job_id, task.name, task.queue
            ) AS fire
        );
    END LOOP;
    IF cardinality(due) > 0 THEN
        INSERT INTO brant._brant_schedules (name, last_fire_at) VALUES (task.name, due[cardinality(due)])
        ON CONFLICT (name) DO UPDATE SET last_fire_at = excluded.last_fire_at;
    END IF;
    UPDATE brant._honker_scheduler_tasks SET next_fire_at = following WHERE name = task.name;
    RETURN fires;
END
$$;

CREATE OR REPLACE FUNCTION brant.honker_scheduler_tick(now bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    due record;
    fires text[] := '{}';
BEGIN
    PERFORM brant._brant_require('honker_scheduler_tick', now IS NOT NULL);
    -- One that another scheduler is about to fire is left to that one.
    FOR due IN
        SELECT task, extra.tz, coalesce(extra.missed, 'all') AS missed
        FROM brant._honker_scheduler_tasks AS task LEFT JOIN brant._brant_schedules AS extra ON extra.name = task.name
        WHERE task.enabled = 1 AND task.next_fire_at <= now AND extra.error IS NULL
        ORDER BY task.next_fire_at, task.name FOR UPDATE OF task SKIP LOCKED
    LOOP
        BEGIN
            fires := fires || brant._brant_fire(due.task, due.tz, due.missed, now);
        EXCEPTION WHEN data_exception THEN
            -- Whatever other programs wrote into the row: it must not stop the others.
            INSERT INTO brant._brant_schedules (name, error) VALUES ((due.task).name, SQLERRM)
            ON CONFLICT (name) DO UPDATE SET error = excluded.error;
        END;
    END LOOP;
    RETURN '[' || array_to_string(fires, ',') || ']';
END
$$;

CREATE OR REPLACE FUNCTION brant.honker_scheduler_soonest() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT CAST(coalesce(min(task.next_fire_at), 0) AS bigint)
    FROM brant._honker_scheduler_tasks AS task LEFT JOIN brant._brant_schedules AS extra ON extra.name = task.name
    WHERE task.enabled = 1 AND extra.error IS NULL
$$;

CREATE OR REPLACE FUNCTION brant.honker_scheduler_pause(name text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM brant._brant_require('honker_scheduler_pause', name IS NOT NULL);
    UPDATE brant._honker_scheduler_tasks AS task SET enabled = 0
    WHERE task.name = honker_scheduler_pause.name AND task.enabled = 1;
    RETURN CAST(FOUND AS integer);
END
$$;

-- Goes on; of the fires that fell into the pause only the last is made up for.
CREATE OR REPLACE FUNCTION brant.honker_scheduler_resume(name text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    task brant._honker_scheduler_tasks;
    extra brant._brant_schedules;
    at bigint := floor(brant._brant_now());
    times bigint[];
BEGIN
    PERFORM brant._brant_require('honker_scheduler_resume', name IS NOT NULL);
    UPDATE brant._honker_scheduler_tasks AS known SET enabled = 1
    WHERE known.name = honker_scheduler_resume.name AND known.enabled = 0 RETURNING known.* INTO task;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    SELECT * INTO extra FROM brant._brant_schedules AS known WHERE known.name = honker_scheduler_resume.name;
    IF extra.error IS NULL AND task.next_fire_at <= at THEN
        times := brant._brant_due_times(task.cron_expr, extra.tz, CAST(task.next_fire_at AS bigint), at);
        UPDATE brant._honker_scheduler_tasks AS known
        SET next_fire_at = brant._brant_newest(task.cron_expr, extra.tz, times[:cardinality(times) - 1], at)
        WHERE known.name = task.name;
    END IF;
    PERFORM brant._brant_ring();
    RETURN 1;
END
$$;

CREATE OR REPLACE FUNCTION brant.honker_scheduler_list() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT '[' || coalesce(string_agg(CAST(row_to_json(shown) AS text), ',' ORDER BY task.name), '') || ']'
    FROM brant._honker_scheduler_tasks AS task CROSS JOIN LATERAL (
        SELECT task.cron_expr, task.enabled = 1 AS enabled, task.expires_s, task.max_attempts, task.name,
            task.next_fire_at, task.payload, task.priority, task.queue
    ) AS shown
$$;

CREATE OR REPLACE FUNCTION brant.honker_scheduler_update(
    name text, expr text, payload text, priority bigint, expires_s bigint, touch_expires bigint,
    max_attempts bigint DEFAULT NULL, touch_max_attempts bigint DEFAULT 0
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    known_tz text := (SELECT extra.tz FROM brant._brant_schedules AS extra WHERE extra.name = honker_scheduler_update.name);
BEGIN
    PERFORM brant._brant_require(
        'honker_scheduler_update', name IS NOT NULL, true, true, true, true, touch_expires IS NOT NULL, true,
        touch_max_attempts IS NOT NULL
    );
    IF expr IS NULL AND payload IS NULL AND priority IS NULL AND touch_expires = 0 AND touch_max_attempts = 0 THEN
        RETURN 0;
    END IF;
    expr := btrim(expr, E' \t\n\r\f\v');
    UPDATE brant._honker_scheduler_tasks AS task SET
        cron_expr = coalesce(expr, task.cron_expr),
        payload = coalesce(honker_scheduler_update.payload, task.payload),
        priority = coalesce(honker_scheduler_update.priority, task.priority),
        expires_s = CASE WHEN touch_expires <> 0 THEN honker_scheduler_update.expires_s ELSE task.expires_s END,
        max_attempts = CASE WHEN touch_max_attempts <> 0
            THEN greatest(coalesce(honker_scheduler_update.max_attempts, 3), 1) ELSE task.max_attempts END,
        next_fire_at = CASE WHEN expr IS NULL THEN task.next_fire_at
            ELSE brant._brant_cron_next(expr, known_tz, CAST(floor(brant._brant_now()) AS bigint)) END
    WHERE task.name = honker_scheduler_update.name;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    UPDATE brant._brant_schedules AS extra SET error = NULL WHERE extra.name = honker_scheduler_update.name;
    PERFORM brant._brant_ring();
    RETURN 1;
END
$$;
