-- fragment: stream_columns
offset,
    CASE WHEN :topic THEN CAST(topic AS BLOB) END,
    CASE WHEN :key THEN CAST(key AS BLOB) END,
    CASE WHEN :payload AND length(CAST(payload AS BLOB)) <= :small THEN CAST(payload AS BLOB) END,
    CASE WHEN :created_at THEN CAST(created_at * 1000000 AS INTEGER) END

-- The first row tells the types.
-- fragment: stream_types
SELECT 0 AS "offset", x'' AS topic, x'' AS key, x'' AS payload, 0 AS created_at
UNION ALL

-- name: stream_bounds
SELECT
    (SELECT min(offset) FROM _honker_stream) AS first,
    max(
        coalesce((SELECT max(offset) FROM _honker_stream), 0),
        coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = '_honker_stream'), 0)
    ) AS last

-- name: stream_count
SELECT count(*) FROM _honker_stream WHERE offset > :after AND offset <= :until

-- name: stream_count_of_some
SELECT count(*) FROM _honker_stream
WHERE +topic IN (SELECT value FROM json_each(:names)) AND offset > :after AND offset <= :until

-- name: stream_first_of_one
SELECT min(offset) FROM _honker_stream WHERE topic = :name AND offset > :after

-- name: stream_heads
SELECT 0 AS "offset", x'' AS topic
UNION ALL
SELECT * FROM (
    SELECT offset, CAST(topic AS BLOB) FROM _honker_stream
    WHERE offset > :after AND offset <= :until
    ORDER BY offset
    LIMIT :rows
)

-- name: stream_heads_of_one
SELECT 0 AS "offset", x'' AS topic
UNION ALL
SELECT * FROM (
    SELECT offset, CAST(topic AS BLOB) FROM _honker_stream
    WHERE topic = :name AND offset > :after AND offset <= :until
    ORDER BY offset
    LIMIT :rows
)

-- name: stream_names
WITH RECURSIVE found (name) AS (
    SELECT min(topic) FROM _honker_stream
    UNION ALL
    SELECT (SELECT min(topic) FROM _honker_stream WHERE topic > found.name) FROM found WHERE found.name IS NOT NULL
)
SELECT name FROM found WHERE name IS NOT NULL

-- name: stream_nth
SELECT offset FROM _honker_stream WHERE offset > :after AND offset <= :until ORDER BY offset LIMIT 1 OFFSET :skip

-- name: stream_nth_of_one
SELECT offset FROM _honker_stream
WHERE topic = :name AND offset > :after AND offset <= :until
ORDER BY offset
LIMIT 1 OFFSET :skip

-- name: stream_nth_of_some
SELECT offset FROM _honker_stream
WHERE +topic IN (SELECT value FROM json_each(:names)) AND offset > :after AND offset <= :until
ORDER BY offset
LIMIT 1 OFFSET :skip

-- name: stream_page
{{stream_types}}
SELECT * FROM (
    SELECT {{stream_columns}}
    FROM _honker_stream
    WHERE offset > :after AND offset <= :until
    ORDER BY offset
    LIMIT :rows
)

-- name: stream_page_of_one
{{stream_types}}
SELECT * FROM (
    SELECT {{stream_columns}}
    FROM _honker_stream
    WHERE topic = :name AND offset > :after AND offset <= :until
    ORDER BY offset
    LIMIT :rows
)

-- name: stream_payload
SELECT x'' AS payload
UNION ALL
SELECT CAST(payload AS BLOB) FROM _honker_stream WHERE offset = :cursor

-- name: stream_time_at
SELECT offset, created_at FROM _honker_stream WHERE offset >= :cursor ORDER BY offset LIMIT 1
