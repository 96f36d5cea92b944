-- fragment: notifications_columns
id,
    CASE WHEN :channel THEN CAST(channel AS BLOB) END,
    CASE WHEN :payload AND length(CAST(payload AS BLOB)) <= :small THEN CAST(payload AS BLOB) END,
    CASE WHEN :created_at THEN CAST(created_at * 1000000 AS INTEGER) END

-- The first row tells the types.
-- fragment: notifications_types
SELECT 0 AS id, x'' AS channel, x'' AS payload, 0 AS created_at
UNION ALL

-- name: notifications_bounds
SELECT
    (SELECT min(id) FROM _honker_notifications) AS first,
    max(
        coalesce((SELECT max(id) FROM _honker_notifications), 0),
        coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = '_honker_notifications'), 0)
    ) AS last

-- name: notifications_count
SELECT count(*) FROM _honker_notifications WHERE id > :after AND id <= :until

-- name: notifications_first_of_one
SELECT min(id) FROM _honker_notifications WHERE channel = :name AND id > :after

-- name: notifications_names
WITH RECURSIVE found (name) AS (
    SELECT min(channel) FROM _honker_notifications
    UNION ALL
    SELECT (SELECT min(channel) FROM _honker_notifications WHERE channel > found.name) FROM found WHERE found.name IS NOT NULL
)
SELECT name FROM found WHERE name IS NOT NULL

-- name: notifications_nth
SELECT id FROM _honker_notifications WHERE id > :after AND id <= :until ORDER BY id LIMIT 1 OFFSET :skip

-- name: notifications_nth_of_one
SELECT id FROM _honker_notifications
WHERE channel = :name AND id > :after AND id <= :until
ORDER BY id
LIMIT 1 OFFSET :skip

-- name: notifications_nth_of_some
SELECT id FROM _honker_notifications
WHERE +channel IN (SELECT value FROM json_each(:names)) AND id > :after AND id <= :until
ORDER BY id
LIMIT 1 OFFSET :skip

-- name: notifications_page
{{notifications_types}}
SELECT * FROM (
    SELECT {{notifications_columns}}
    FROM _honker_notifications
    WHERE id > :after AND id <= :until
    ORDER BY id
    LIMIT :rows
)

-- name: notifications_page_of_one
{{notifications_types}}
SELECT * FROM (
    SELECT {{notifications_columns}}
    FROM _honker_notifications
    WHERE channel = :name AND id > :after AND id <= :until
    ORDER BY id
    LIMIT :rows
)

-- name: notifications_payload
SELECT x'' AS payload
UNION ALL
SELECT CAST(payload AS BLOB) FROM _honker_notifications WHERE id = :cursor

-- name: notifications_time_at
SELECT id, created_at FROM _honker_notifications WHERE id >= :cursor ORDER BY id LIMIT 1
