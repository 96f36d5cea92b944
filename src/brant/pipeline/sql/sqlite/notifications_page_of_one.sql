SELECT 0 AS id, x'' AS channel, x'' AS payload, 0 AS created_at
UNION ALL
SELECT * FROM (
    SELECT
        id,
        CASE WHEN :channel THEN CAST(channel AS BLOB) END,
        CASE WHEN :payload AND length(CAST(payload AS BLOB)) <= :small THEN CAST(payload AS BLOB) END,
        CASE WHEN :created_at THEN CAST(created_at * 1000000 AS INTEGER) END
    FROM _honker_notifications
    WHERE channel = :name AND id > :after AND id <= :until
    ORDER BY id
    LIMIT :rows
)
