SELECT id, received_at FROM knocker_deliveries WHERE id >= :cursor ORDER BY id LIMIT 1
