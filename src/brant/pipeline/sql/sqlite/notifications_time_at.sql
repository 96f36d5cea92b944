SELECT id, created_at FROM _honker_notifications WHERE id >= :cursor ORDER BY id LIMIT 1
