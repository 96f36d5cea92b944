SELECT id, created_at FROM brant._honker_notifications WHERE id >= :cursor ORDER BY id LIMIT 1
