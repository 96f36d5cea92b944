-- fragment: notifications_columns
id,
    CASE WHEN :channel = 1 THEN channel END AS channel,
    CASE WHEN :payload = 1 AND octet_length(payload) <= :small THEN payload END AS payload,
    CASE WHEN :created_at = 1 AND abs(created_at) < 9e12 THEN CAST(created_at * 1000000 AS bigint) END AS created_at

-- name: notifications_bounds
SELECT
    (SELECT min(id) FROM brant._honker_notifications) AS first,
    greatest(
        coalesce((SELECT max(id) FROM brant._honker_notifications), 0),
        coalesce(pg_sequence_last_value(CAST('brant._brant_notification_ids' AS regclass)), 0)
    ) AS last

-- name: notifications_count
SELECT count(*) FROM brant._honker_notifications WHERE id > :after AND id <= :until

-- name: notifications_first_of_one
SELECT min(id) FROM brant._honker_notifications WHERE channel = :name AND id > :after

-- name: notifications_given
SELECT
    coalesce(pg_sequence_last_value(ids), CASE WHEN has_sequence_privilege(ids, 'SELECT') THEN 0 END) AS last,
    pg_is_in_recovery() AS is_replica
FROM CAST('brant._brant_notification_ids' AS regclass) AS ids

-- name: notifications_horizon_of_one
SELECT brant._brant_horizon(CAST('brant._brant_notification_ids' AS regclass), :name) AS last

-- name: notifications_names
WITH RECURSIVE found (name) AS (
    (SELECT min(channel) FROM brant._honker_notifications)
    UNION ALL
    SELECT (SELECT min(row.channel) FROM brant._honker_notifications AS row WHERE row.channel > found.name)
    FROM found WHERE found.name IS NOT NULL
)
SELECT name FROM found WHERE name IS NOT NULL

-- name: notifications_nth
SELECT id FROM brant._honker_notifications
WHERE id > :after AND id <= :until
ORDER BY id
LIMIT 1 OFFSET :skip

-- name: notifications_nth_of_one
SELECT id FROM brant._honker_notifications
WHERE channel = :name AND id > :after AND id <= :until
ORDER BY id
LIMIT 1 OFFSET :skip

-- name: notifications_nth_of_some
SELECT id FROM brant._honker_notifications
WHERE channel IN (SELECT json_array_elements_text(CAST(:names AS json))) AND id > :after AND id <= :until
ORDER BY id
LIMIT 1 OFFSET :skip

-- name: notifications_page
SELECT {{notifications_columns}}
FROM brant._honker_notifications
WHERE id > :after AND id <= :until
ORDER BY id
LIMIT :rows

-- name: notifications_page_of_one
SELECT {{notifications_columns}}
FROM brant._honker_notifications
WHERE channel = :name AND id > :after AND id <= :until
ORDER BY id
LIMIT :rows

-- name: notifications_payload
SELECT payload FROM brant._honker_notifications WHERE id = :cursor

-- name: notifications_time_at
SELECT id, created_at FROM brant._honker_notifications WHERE id >= :cursor ORDER BY id LIMIT 1
