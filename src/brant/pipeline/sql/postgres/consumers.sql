-- name: consumers_exists
SELECT 1 FROM brant._honker_stream_consumers LIMIT 1

-- name: consumers_names
SELECT DISTINCT topic FROM brant._honker_stream_consumers

-- name: consumers_rows
SELECT name, topic, "offset" FROM brant._honker_stream_consumers
WHERE CAST(:names AS json) IS NULL OR topic IN (SELECT json_array_elements_text(CAST(:names AS json)))
ORDER BY topic, name
