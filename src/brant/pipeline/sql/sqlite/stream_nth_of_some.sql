SELECT offset FROM _honker_stream
WHERE +topic IN (SELECT value FROM json_each(:names)) AND offset > :after AND offset <= :until
ORDER BY offset
LIMIT 1 OFFSET :skip
