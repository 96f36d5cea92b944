WITH RECURSIVE found (name) AS (
    SELECT min(topic) FROM _honker_stream
    UNION ALL
    SELECT (SELECT min(topic) FROM _honker_stream WHERE topic > found.name) FROM found WHERE found.name IS NOT NULL
)
SELECT name FROM found WHERE name IS NOT NULL
