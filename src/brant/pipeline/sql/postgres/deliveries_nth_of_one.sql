SELECT id FROM brant.knocker_deliveries
WHERE endpoint_id = (SELECT id FROM brant.knocker_endpoints WHERE name = :name) AND id > :after AND id <= :until
ORDER BY id
LIMIT 1 OFFSET :skip
