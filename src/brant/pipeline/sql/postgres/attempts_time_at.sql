SELECT id, attempted_at FROM brant.knocker_attempts WHERE id >= :cursor ORDER BY id LIMIT 1
