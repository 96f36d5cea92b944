SELECT 0 AS "offset", x'' AS topic
UNION ALL
SELECT * FROM (
    SELECT offset, CAST(topic AS BLOB) FROM _honker_stream
    WHERE topic = :name AND offset > :after AND offset <= :until
    ORDER BY offset
    LIMIT :rows
)
