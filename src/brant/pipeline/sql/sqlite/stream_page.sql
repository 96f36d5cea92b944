SELECT 0 AS "offset", x'' AS topic, x'' AS key, x'' AS payload, 0 AS created_at
UNION ALL
SELECT * FROM (
    SELECT
        offset,
        CASE WHEN :topic THEN CAST(topic AS BLOB) END,
        CASE WHEN :key THEN CAST(key AS BLOB) END,
        CASE WHEN :payload AND length(CAST(payload AS BLOB)) <= :small THEN CAST(payload AS BLOB) END,
        CASE WHEN :created_at THEN CAST(created_at * 1000000 AS INTEGER) END
    FROM _honker_stream
    WHERE offset > :after AND offset <= :until
    ORDER BY offset
    LIMIT :rows
)
