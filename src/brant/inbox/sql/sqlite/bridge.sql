-- Made in this order, each if it is missing.

-- The name of this database among those that it is bridged with.
-- name: bridge_make_10_node
CREATE TABLE IF NOT EXISTS _brant_bridge_node (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    name TEXT NOT NULL
)

-- Events of streams that came over a bridge, and which of whose events they are. A row outlives its event, so that the
-- event is known when it comes again. The mark tells events apart where a node lost its latest ones and reuses offsets.
-- name: bridge_make_11_events
CREATE TABLE IF NOT EXISTS _brant_bridge_events (
    stream_offset INTEGER PRIMARY KEY,
    origin TEXT NOT NULL,
    origin_offset INTEGER NOT NULL,
    mark TEXT NOT NULL,
    created_at REAL NOT NULL
)

-- name: bridge_make_12_known
CREATE UNIQUE INDEX IF NOT EXISTS _brant_bridge_events_known
    ON _brant_bridge_events (origin, origin_offset, mark)

-- name: bridge_is_prepared
SELECT 1 AS found FROM sqlite_schema WHERE type = 'index' AND name = '_brant_bridge_events_known'

-- name: bridge_node
SELECT name FROM _brant_bridge_node WHERE one = 1

-- name: bridge_first_name
INSERT INTO _brant_bridge_node (one, name) VALUES (1, ?1) ON CONFLICT DO NOTHING

-- name: bridge_rename
INSERT INTO _brant_bridge_node (one, name) VALUES (1, ?1) ON CONFLICT (one) DO UPDATE SET name = excluded.name

-- name: bridge_origins
SELECT stream_offset, origin, origin_offset, created_at FROM _brant_bridge_events WHERE stream_offset BETWEEN ?1 AND ?2

-- A page of those that an event of long ago has left when it was pruned, and the last offset that was looked at.
-- name: bridge_left_behind
SELECT max(page.stream_offset) AS last, json_group_array(page.stream_offset) FILTER (
    WHERE page.created_at < ?2
    AND NOT EXISTS (SELECT 1 FROM _honker_stream AS stream WHERE stream.offset = page.stream_offset)
) AS gone
FROM (
    SELECT stream_offset, created_at FROM _brant_bridge_events WHERE stream_offset > ?1 ORDER BY stream_offset LIMIT ?3
) AS page

-- name: bridge_forget
DELETE FROM _brant_bridge_events WHERE stream_offset IN (SELECT value FROM json_each(?1))

-- Which of an array of [origin, offset, mark] are known, by their places in it.
-- name: bridge_known
SELECT given.key AS position
FROM json_each(?1) AS given
JOIN _brant_bridge_events AS known
    ON known.origin = json_extract(given.value, '$[0]')
    AND known.origin_offset = json_extract(given.value, '$[1]')
    AND known.mark = json_extract(given.value, '$[2]')

-- An array of [stream offset, origin, offset, mark, created at].
-- name: bridge_note
INSERT INTO _brant_bridge_events (stream_offset, origin, origin_offset, mark, created_at)
SELECT
    json_extract(value, '$[0]'),
    json_extract(value, '$[1]'),
    json_extract(value, '$[2]'),
    json_extract(value, '$[3]'),
    json_extract(value, '$[4]')
FROM json_each(?1)
