SELECT id FROM knocker_deliveries
WHERE +endpoint_id IN (SELECT id FROM knocker_endpoints WHERE name IN (SELECT value FROM json_each(:names)))
    AND id > :after AND id <= :until
ORDER BY id
LIMIT 1 OFFSET :skip
