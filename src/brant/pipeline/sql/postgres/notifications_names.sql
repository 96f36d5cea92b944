WITH RECURSIVE found (name) AS (
    (SELECT min(channel) FROM brant._honker_notifications)
    UNION ALL
    SELECT (SELECT min(row.channel) FROM brant._honker_notifications AS row WHERE row.channel > found.name)
    FROM found WHERE found.name IS NOT NULL
)
SELECT name FROM found WHERE name IS NOT NULL
