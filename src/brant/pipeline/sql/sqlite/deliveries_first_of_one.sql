SELECT min(id) FROM knocker_deliveries
WHERE endpoint_id = (SELECT id FROM knocker_endpoints WHERE name = :name) AND id > :after
