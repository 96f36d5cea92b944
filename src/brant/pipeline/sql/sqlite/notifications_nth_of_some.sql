SELECT id FROM _honker_notifications
WHERE +channel IN (SELECT value FROM json_each(:names)) AND id > :after AND id <= :until
ORDER BY id
LIMIT 1 OFFSET :skip
