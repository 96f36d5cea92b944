-- What is in the payload is taken apart by the reader: one that is no JSON must not stop the others. The key of a
-- lifecycle event is its queue.
-- name: jobs_page_of_one
SELECT "offset", payload, CASE WHEN abs(created_at) < 9e12 THEN CAST(created_at * 1000000 AS bigint) END AS created_at
FROM brant._honker_stream
WHERE topic = :name AND "offset" > :after AND "offset" <= :until
    AND (CAST(:names AS json) IS NULL OR key IN (SELECT json_array_elements_text(CAST(:names AS json))))
ORDER BY "offset"
LIMIT :rows
