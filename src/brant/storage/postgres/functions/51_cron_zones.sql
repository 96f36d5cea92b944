CREATE OR REPLACE FUNCTION brant._brant_wall_at(instant bigint, zone text) RETURNS timestamp LANGUAGE sql STABLE AS $$
    SELECT to_timestamp(instant) AT TIME ZONE zone
$$;

-- The first and the last instant at which the clock shows the wall; where it jumps over it, one on each side.
CREATE OR REPLACE FUNCTION brant._brant_wall_bounds(wall timestamp, zone text) RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    in_utc bigint := CAST(extract(epoch FROM wall) AS bigint);
    candidates bigint[];
    shown bigint[];
BEGIN
    -- By the offsets of the day before and of the day after.
    candidates := ARRAY(
        SELECT DISTINCT in_utc - CAST(extract(epoch FROM brant._brant_wall_at(beside, zone)) AS bigint) + beside AS instant
        FROM unnest(ARRAY[in_utc - 86400, in_utc + 86400]) AS beside ORDER BY instant
    );
    shown := ARRAY(
        SELECT instant FROM unnest(candidates) AS instant
        WHERE brant._brant_wall_at(instant, zone) = wall ORDER BY instant
    );
    IF cardinality(shown) = 0 THEN
        shown := candidates;
    END IF;
    RETURN ARRAY[shown[1], shown[cardinality(shown)]];
END
$$;

-- Whether the clock was put forward or back after the one instant and until the other.
CREATE OR REPLACE FUNCTION brant._brant_shifts(from_instant bigint, to_instant bigint, zone text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT extract(epoch FROM brant._brant_wall_at(to_instant, zone) - brant._brant_wall_at(from_instant, zone))
        <> to_instant - from_instant
$$;

-- The instant at which the clock is put forward or back, known to be after the one and until the other.
CREATE OR REPLACE FUNCTION brant._brant_first_shift(from_instant bigint, to_instant bigint, zone text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    before bigint := from_instant;
    behind bigint := to_instant;
    middle bigint;
BEGIN
    WHILE behind - before > 1 LOOP
        middle := (before + behind) / 2;
        IF brant._brant_shifts(from_instant, middle, zone) THEN
            behind := middle;
        ELSE
            before := middle;
        END IF;
    END LOOP;
    RETURN behind;
END
$$;

-- Each wall once, also where the clock jumps over it or repeats it.
CREATE OR REPLACE FUNCTION brant._brant_next_fixed(cron brant._brant_cron, zone text, after bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    wall timestamp := brant._brant_wall_at(after, zone);
    bounds bigint[];
    instant bigint;
BEGIN
    LOOP
        wall := brant._brant_cron_first_from(cron, wall + interval '1 second');
        bounds := brant._brant_wall_bounds(wall, zone);
        instant := CASE WHEN brant._brant_wall_at(bounds[1], zone) = wall THEN bounds[1]
            ELSE brant._brant_first_shift(bounds[1], bounds[2], zone) END;
        -- In the second pass of a repeated hour, the times still ahead on the clock have fired in the first.
        IF instant > after THEN
            RETURN instant;
        END IF;
    END LOOP;
END
$$;

-- Each instant at which the clock shows a matching time: twice in a repeated hour, never in a gap.
CREATE OR REPLACE FUNCTION brant._brant_next_running(cron brant._brant_cron, zone text, after bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    start bigint := after + 1;
    shown timestamp;
    wall timestamp;
    unshifted bigint;
    horizon bigint;
BEGIN
    LOOP
        shown := brant._brant_wall_at(start, zone);
        wall := brant._brant_cron_first_from(cron, shown);
        unshifted := start + CAST(extract(epoch FROM wall - shown) AS bigint);
        -- A shift further away than a day can't bring back a time that the clock has already passed.
        horizon := least(unshifted, start + 86400);
        IF brant._brant_shifts(start, horizon, zone) THEN
            start := brant._brant_first_shift(start, horizon, zone);
        ELSIF horizon = unshifted THEN
            RETURN unshifted;
        ELSE
            start := (brant._brant_wall_bounds(wall, zone))[1];
        END IF;
    END LOOP;
END
$$;

-- The first time strictly after the given one; an error for what is no schedule.
CREATE OR REPLACE FUNCTION brant._brant_cron_next(expr text, tz text, after bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    trimmed text := btrim(expr, E' \t\n\r\f\v');
    interval_s numeric;
    cron brant._brant_cron;
    zone text := coalesce(tz, current_setting('TimeZone'));
BEGIN
    IF trimmed ~ '[^\x09\x20-\x7e]' THEN
        RAISE EXCEPTION 'only printable ASCII, spaces and tabs are allowed' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF lower(left(trimmed, 6)) = '@every' THEN
        interval_s := CAST((regexp_match(trimmed, '^.{6}\s*([0-9]{1,10})[smhd]$'))[1] AS numeric)
            * CASE right(trimmed, 1) WHEN 's' THEN 1 WHEN 'm' THEN 60 WHEN 'h' THEN 3600 ELSE 86400 END;
        IF interval_s IS NULL OR interval_s NOT BETWEEN 1 AND 3153600000 THEN
            RAISE EXCEPTION '''%'' is not a number of 1 or more with a unit s, m, h or d, up to 100 years',
                btrim(substr(trimmed, 7)) USING ERRCODE = 'invalid_parameter_value';
        END IF;
        RETURN after + CAST(interval_s AS bigint);
    END IF;
    cron := brant._brant_cron_times(brant._brant_cron_fields(trimmed));
    RETURN CASE WHEN cron.follows_real_time THEN brant._brant_next_running(cron, zone, after)
        ELSE brant._brant_next_fixed(cron, zone, after) END;
EXCEPTION WHEN invalid_parameter_value THEN
    RAISE EXCEPTION 'invalid schedule ''%'': %', trimmed, SQLERRM USING ERRCODE = 'invalid_parameter_value';
END
$$;

CREATE OR REPLACE FUNCTION brant.honker_cron_next_after(expr text, "from" bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM brant._brant_require('honker_cron_next_after', expr IS NOT NULL, "from" IS NOT NULL);
    RETURN brant._brant_cron_next(expr, NULL, "from");
END
$$;
