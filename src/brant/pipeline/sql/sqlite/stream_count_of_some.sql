SELECT count(*) FROM _honker_stream
WHERE +topic IN (SELECT value FROM json_each(:names)) AND offset > :after AND offset <= :until
