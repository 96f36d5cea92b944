-- name: consumers_exists
SELECT 1 FROM _honker_stream_consumers LIMIT 1

-- name: consumers_names
SELECT DISTINCT topic FROM _honker_stream_consumers

-- name: consumers_rows
SELECT name, topic, offset FROM _honker_stream_consumers
WHERE :names IS NULL OR topic IN (SELECT value FROM json_each(:names))
ORDER BY topic, name
