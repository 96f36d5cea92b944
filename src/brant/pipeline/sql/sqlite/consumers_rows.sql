SELECT name, topic, offset FROM _honker_stream_consumers
WHERE :names IS NULL OR topic IN (SELECT value FROM json_each(:names))
ORDER BY topic, name
