WITH RECURSIVE found (name) AS (
    SELECT min(channel) FROM _honker_notifications
    UNION ALL
    SELECT (SELECT min(channel) FROM _honker_notifications WHERE channel > found.name) FROM found WHERE found.name IS NOT NULL
)
SELECT name FROM found WHERE name IS NOT NULL
