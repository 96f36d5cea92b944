SELECT id, received_at FROM brant.knocker_deliveries WHERE id >= :cursor ORDER BY id LIMIT 1
