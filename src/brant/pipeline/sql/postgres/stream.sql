-- fragment: stream_columns
"offset",
    CASE WHEN :topic = 1 THEN topic END AS topic,
    CASE WHEN :key = 1 THEN key END AS key,
    CASE WHEN :payload = 1 AND octet_length(payload) <= :small THEN payload END AS payload,
    CASE WHEN :created_at = 1 AND abs(created_at) < 9e12 THEN CAST(created_at * 1000000 AS bigint) END AS created_at

-- name: stream_bounds
SELECT
    (SELECT min("offset") FROM brant._honker_stream) AS first,
    greatest(
        coalesce((SELECT max("offset") FROM brant._honker_stream), 0),
        coalesce(pg_sequence_last_value(CAST('brant._brant_stream_offsets' AS regclass)), 0)
    ) AS last

-- name: stream_count
SELECT count(*) FROM brant._honker_stream WHERE "offset" > :after AND "offset" <= :until

-- name: stream_count_of_some
SELECT count(*) FROM brant._honker_stream
WHERE topic IN (SELECT json_array_elements_text(CAST(:names AS json))) AND "offset" > :after AND "offset" <= :until

-- name: stream_first_of_one
SELECT min("offset") FROM brant._honker_stream WHERE topic = :name AND "offset" > :after

-- name: stream_given
SELECT
    coalesce(pg_sequence_last_value(ids), CASE WHEN has_sequence_privilege(ids, 'SELECT') THEN 0 END) AS last,
    pg_is_in_recovery() AS is_replica
FROM CAST('brant._brant_stream_offsets' AS regclass) AS ids

-- name: stream_heads
SELECT "offset", topic FROM brant._honker_stream
WHERE "offset" > :after AND "offset" <= :until
ORDER BY "offset"
LIMIT :rows

-- name: stream_heads_of_one
SELECT "offset", topic FROM brant._honker_stream
WHERE topic = :name AND "offset" > :after AND "offset" <= :until
ORDER BY "offset"
LIMIT :rows

-- name: stream_horizon_of_one
SELECT brant._brant_horizon(CAST('brant._brant_stream_offsets' AS regclass), :name) AS last

-- name: stream_names
WITH RECURSIVE found (name) AS (
    (SELECT min(topic) FROM brant._honker_stream)
    UNION ALL
    SELECT (SELECT min(row.topic) FROM brant._honker_stream AS row WHERE row.topic > found.name)
    FROM found WHERE found.name IS NOT NULL
)
SELECT name FROM found WHERE name IS NOT NULL

-- name: stream_nth
SELECT "offset" FROM brant._honker_stream
WHERE "offset" > :after AND "offset" <= :until
ORDER BY "offset"
LIMIT 1 OFFSET :skip

-- name: stream_nth_of_one
SELECT "offset" FROM brant._honker_stream
WHERE topic = :name AND "offset" > :after AND "offset" <= :until
ORDER BY "offset"
LIMIT 1 OFFSET :skip

-- name: stream_nth_of_some
SELECT "offset" FROM brant._honker_stream
WHERE topic IN (SELECT json_array_elements_text(CAST(:names AS json))) AND "offset" > :after AND "offset" <= :until
ORDER BY "offset"
LIMIT 1 OFFSET :skip

-- name: stream_page
SELECT {{stream_columns}}
FROM brant._honker_stream
WHERE "offset" > :after AND "offset" <= :until
ORDER BY "offset"
LIMIT :rows

-- name: stream_page_of_one
SELECT {{stream_columns}}
FROM brant._honker_stream
WHERE topic = :name AND "offset" > :after AND "offset" <= :until
ORDER BY "offset"
LIMIT :rows

-- name: stream_payload
SELECT payload FROM brant._honker_stream WHERE "offset" = :cursor

-- name: stream_time_at
SELECT "offset", created_at FROM brant._honker_stream WHERE "offset" >= :cursor ORDER BY "offset" LIMIT 1
