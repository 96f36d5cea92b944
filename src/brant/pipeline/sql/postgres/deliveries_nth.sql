SELECT id FROM brant.knocker_deliveries WHERE id > :after AND id <= :until ORDER BY id LIMIT 1 OFFSET :skip
