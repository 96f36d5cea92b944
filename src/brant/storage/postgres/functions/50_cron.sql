-- When a schedule fires next: the same rules as Brant's own, in the zone of the schedule or, where it has none, in that of
-- the session. An instant is a number of seconds since 1970, a wall is what the clock of the zone shows.

-- The numbers that one field stands for, in order: a list of `*`, `a` and `a-b`, each with a step perhaps.
CREATE OR REPLACE FUNCTION brant._brant_cron_field(
    field text, field_name text, low integer, high integer, words text[]
) RETURNS integer[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    item text;
    span text;
    step text;
    ends text[];
    bounds integer[];
    found integer[] := '{}';
BEGIN
    FOREACH item IN ARRAY string_to_array(field, ',') LOOP
        span := split_part(item, '/', 1);
        step := CASE WHEN strpos(item, '/') > 0 THEN substr(item, strpos(item, '/') + 1) END;
        IF span = '*' THEN
            bounds := ARRAY[low, high];
        ELSE
            ends := CASE WHEN strpos(span, '-') > 0
                THEN ARRAY[split_part(span, '-', 1), substr(span, strpos(span, '-') + 1)] ELSE ARRAY[span, span] END;
            bounds := ARRAY(
                SELECT coalesce(
                    array_position(words, upper(one)) - 1 + low,
                    CASE WHEN one ~ '^[0-9]{1,9}$' THEN CAST(one AS integer) END
                ) FROM unnest(ends) WITH ORDINALITY AS end_ (one, place) ORDER BY place
            );
            IF bounds[1] IS NULL OR bounds[2] IS NULL OR bounds[1] NOT BETWEEN low AND high
                OR bounds[2] NOT BETWEEN low AND high THEN
                RAISE EXCEPTION '% ''%'' is not one of %-%', field_name, span, low, high
                    USING ERRCODE = 'invalid_parameter_value';
            END IF;
            IF bounds[2] < bounds[1] AND upper(ends[2]) = 'SUN' THEN
                bounds[2] := high; -- a week may be named from Monday to Sunday
            END IF;
            IF bounds[2] < bounds[1] THEN
                RAISE EXCEPTION '% range ''%'' is reversed (% to %)', field_name, span, bounds[1], bounds[2]
                    USING ERRCODE = 'invalid_parameter_value';
            END IF;
        END IF;
        IF step IS NOT NULL AND (step !~ '^[0-9]{1,9}$' OR CAST(step AS integer) < 1) THEN
            RAISE EXCEPTION '% step ''%'' is not a whole number of 1 or more', field_name, step
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        IF step IS NOT NULL AND span <> '*' AND strpos(span, '-') = 0 THEN
            bounds[2] := high;
        END IF;
        found := found || ARRAY(SELECT generate_series(bounds[1], bounds[2], coalesce(CAST(step AS integer), 1)));
    END LOOP;
    RETURN ARRAY(SELECT DISTINCT value FROM unnest(found) AS value ORDER BY value);
END
$$;

-- The six fields of an expression that is no interval, as texts.
CREATE OR REPLACE FUNCTION brant._brant_cron_fields(expr text) RETURNS text[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    fields text[];
BEGIN
    IF left(expr, 1) = '@' THEN
        expr := CASE lower(expr)
            WHEN '@hourly' THEN '0 * * * *' WHEN '@daily' THEN '0 0 * * *' WHEN '@midnight' THEN '0 0 * * *'
            WHEN '@weekly' THEN '0 0 * * 0' WHEN '@monthly' THEN '0 0 1 * *' WHEN '@yearly' THEN '0 0 1 1 *'
            WHEN '@annually' THEN '0 0 1 1 *'
        END;
        IF expr IS NULL THEN
            RAISE EXCEPTION
                'it is none of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually and @every'
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
    END IF;
    fields := CASE WHEN expr = '' THEN '{}' ELSE regexp_split_to_array(expr, '[ \t]+') END;
    IF cardinality(fields) NOT IN (5, 6) THEN
        RAISE EXCEPTION 'it has % fields; 5, or 6 with a leading second, are allowed', cardinality(fields)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN CASE WHEN cardinality(fields) = 5 THEN array_prepend('0', fields) ELSE fields END;
END
$$;

DO $$
BEGIN
    IF to_regtype('brant._brant_cron') IS NULL THEN
        CREATE TYPE brant._brant_cron AS (
            seconds integer[], minutes integer[], hours integer[], days integer[], months integer[], weekdays integer[],
            either_day_field_is_enough boolean, follows_real_time boolean
        );
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION brant._brant_cron_times(fields text[]) RETURNS brant._brant_cron
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    cron brant._brant_cron;
BEGIN
    cron.seconds := brant._brant_cron_field(fields[1], 'second', 0, 59, '{}');
    cron.minutes := brant._brant_cron_field(fields[2], 'minute', 0, 59, '{}');
    cron.hours := brant._brant_cron_field(fields[3], 'hour', 0, 23, '{}');
    cron.days := brant._brant_cron_field(fields[4], 'day-of-month', 1, 31, '{}');
    cron.months := brant._brant_cron_field(
        fields[5], 'month', 1, 12, '{JAN,FEB,MAR,APR,MAY,JUN,JUL,AUG,SEP,OCT,NOV,DEC}'
    );
    cron.weekdays := ARRAY(SELECT day % 7 FROM unnest(
        brant._brant_cron_field(fields[6], 'day-of-week', 0, 7, '{SUN,MON,TUE,WED,THU,FRI,SAT}')
    ) AS day);
    cron.either_day_field_is_enough := left(fields[4], 1) <> '*' AND left(fields[6], 1) <> '*';
    cron.follows_real_time := '*' IN (left(fields[1], 1), left(fields[2], 1), left(fields[3], 1));
    IF NOT cron.either_day_field_is_enough AND cron.days[1] > (
        SELECT max(CASE WHEN month = 2 THEN 29 WHEN month IN (4, 6, 9, 11) THEN 30 ELSE 31 END)
        FROM unnest(cron.months) AS month
    ) THEN
        RAISE EXCEPTION 'it never fires, because no month it names has a day %', cron.days[1]
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN cron;
END
$$;

CREATE OR REPLACE FUNCTION brant._brant_cron_matches(cron brant._brant_cron, day date) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT extract(month FROM day) = ANY (cron.months) AND CASE WHEN cron.either_day_field_is_enough
        THEN extract(day FROM day) = ANY (cron.days) OR extract(dow FROM day) = ANY (cron.weekdays)
        ELSE extract(day FROM day) = ANY (cron.days) AND extract(dow FROM day) = ANY (cron.weekdays)
    END
$$;

-- The first matching wall at or after the given one.
CREATE OR REPLACE FUNCTION brant._brant_cron_first_from(cron brant._brant_cron, wall timestamp) RETURNS timestamp
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    day date := CAST(wall AS date);
    clock time;
BEGIN
    IF brant._brant_cron_matches(cron, day) THEN
        SELECT make_time(hour, minute, second) INTO clock
        FROM unnest(cron.hours) AS hour, unnest(cron.minutes) AS minute, unnest(cron.seconds) AS second
        WHERE (hour, minute, second) >= (
            CAST(extract(hour FROM wall) AS integer), CAST(extract(minute FROM wall) AS integer),
            CAST(extract(second FROM wall) AS integer)
        )
        ORDER BY hour, minute, second LIMIT 1;
        IF FOUND THEN
            RETURN day + clock;
        END IF;
    END IF;
    day := day + 1;
    WHILE NOT brant._brant_cron_matches(cron, day) LOOP
        day := CASE WHEN extract(month FROM day) = ANY (cron.months) THEN day + 1
            ELSE CAST(date_trunc('month', day) + interval '1 month' AS date) END;
    END LOOP;
    RETURN day + make_time(cron.hours[1], cron.minutes[1], cron.seconds[1]);
END
$$;
