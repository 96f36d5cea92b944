SELECT id FROM knocker_attempts WHERE id > :after AND id <= :until ORDER BY id LIMIT 1 OFFSET :skip
