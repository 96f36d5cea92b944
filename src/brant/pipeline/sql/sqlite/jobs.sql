-- name: jobs_page_of_one
SELECT
    0 AS "offset", x'' AS event, x'' AS queue, 0 AS job_id, 0 AS attempt, 0 AS at,
    x'' AS worker, x'' AS error, x'' AS task
UNION ALL
SELECT * FROM (
    SELECT
        offset,
        CASE WHEN :event THEN CAST(json_extract(document, '$.event') AS BLOB) END,
        CASE WHEN :queue THEN CAST(json_extract(document, '$.queue') AS BLOB) END,
        CASE WHEN :job_id THEN CAST(json_extract(document, '$.job_id') AS INTEGER) END,
        CASE WHEN :attempt THEN CAST(json_extract(document, '$.attempt') AS INTEGER) END,
        CASE WHEN :at THEN CAST(coalesce(json_extract(document, '$.at'), created_at) * 1000000 AS INTEGER) END,
        CASE WHEN :worker THEN CAST(json_extract(document, '$.worker') AS BLOB) END,
        CASE WHEN :error THEN CAST(json_extract(document, '$.error') AS BLOB) END,
        CASE WHEN :task THEN CAST(json_extract(document, '$.task') AS BLOB) END
    FROM (
        SELECT
            offset,
            created_at,
            CASE WHEN json_valid(CAST(payload AS TEXT)) THEN CAST(payload AS TEXT) END AS document
        FROM _honker_stream
        WHERE topic = :name AND offset > :after AND offset <= :until
    )
    WHERE :names IS NULL OR json_extract(document, '$.queue') IN (SELECT value FROM json_each(:names))
    ORDER BY offset
    LIMIT :rows
)
