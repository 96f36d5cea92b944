WITH RECURSIVE found (name) AS (
    (SELECT min(topic) FROM brant._honker_stream)
    UNION ALL
    SELECT (SELECT min(row.topic) FROM brant._honker_stream AS row WHERE row.topic > found.name)
    FROM found WHERE found.name IS NOT NULL
)
SELECT name FROM found WHERE name IS NOT NULL
