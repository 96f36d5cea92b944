SELECT id, attempted_at FROM knocker_attempts WHERE id >= :cursor ORDER BY id LIMIT 1
