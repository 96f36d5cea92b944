-- Made in this order, each if it is missing.

-- The name of this database among those that it is bridged with.
-- name: bridge_make_10_node
CREATE TABLE IF NOT EXISTS brant._brant_bridge_node (
    one bigint PRIMARY KEY CHECK (one = 1),
    name text NOT NULL
)

-- Events of streams that came over a bridge, and which of whose events they are. A row outlives its event, so that the
-- event is known when it comes again. The mark tells events apart where a node lost its latest ones and reuses offsets.
-- name: bridge_make_11_events
CREATE TABLE IF NOT EXISTS brant._brant_bridge_events (
    stream_offset bigint PRIMARY KEY,
    origin text COLLATE "C" NOT NULL,
    origin_offset bigint NOT NULL,
    mark text COLLATE "C" NOT NULL,
    created_at double precision NOT NULL
)

-- name: bridge_make_12_known
CREATE UNIQUE INDEX IF NOT EXISTS _brant_bridge_events_known
    ON brant._brant_bridge_events (origin, origin_offset, mark)

-- name: bridge_is_prepared
SELECT 1 AS found WHERE to_regclass('brant._brant_bridge_events_known') IS NOT NULL

-- name: bridge_node
SELECT name FROM brant._brant_bridge_node WHERE one = 1

-- name: bridge_first_name
INSERT INTO brant._brant_bridge_node (one, name) VALUES (1, ?1) ON CONFLICT DO NOTHING

-- name: bridge_rename
INSERT INTO brant._brant_bridge_node (one, name) VALUES (1, ?1) ON CONFLICT (one) DO UPDATE SET name = excluded.name

-- name: bridge_origins
SELECT stream_offset, origin, origin_offset, created_at FROM brant._brant_bridge_events
WHERE stream_offset BETWEEN ?1 AND ?2

-- A page of those that an event of long ago has left when it was pruned, and the last offset that was looked at.
-- name: bridge_left_behind
SELECT max(page.stream_offset) AS last, CAST(COALESCE(json_agg(page.stream_offset) FILTER (
    WHERE page.created_at < CAST(?2 AS double precision)
    AND NOT EXISTS (SELECT 1 FROM brant._honker_stream AS stream WHERE stream."offset" = page.stream_offset)
), '[]') AS text) AS gone
FROM (
    SELECT stream_offset, created_at FROM brant._brant_bridge_events WHERE stream_offset > ?1
    ORDER BY stream_offset LIMIT ?3
) AS page

-- name: bridge_forget
DELETE FROM brant._brant_bridge_events
WHERE stream_offset IN (SELECT CAST(value AS bigint) FROM json_array_elements_text(CAST(?1 AS json)))

-- Which of an array of [origin, offset, mark] are known, by their places in it.
-- name: bridge_known
SELECT given.place - 1 AS position
FROM json_array_elements(CAST(?1 AS json)) WITH ORDINALITY AS given (value, place)
JOIN brant._brant_bridge_events AS known
    ON known.origin = given.value ->> 0
    AND known.origin_offset = CAST(given.value ->> 1 AS bigint)
    AND known.mark = given.value ->> 2

-- An array of [stream offset, origin, offset, mark, created at].
-- name: bridge_note
INSERT INTO brant._brant_bridge_events (stream_offset, origin, origin_offset, mark, created_at)
SELECT
    CAST(value ->> 0 AS bigint),
    value ->> 1,
    CAST(value ->> 2 AS bigint),
    value ->> 3,
    CAST(value ->> 4 AS double precision)
FROM json_array_elements(CAST(?1 AS json))
