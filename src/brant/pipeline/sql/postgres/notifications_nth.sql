SELECT id FROM brant._honker_notifications
WHERE id > :after AND id <= :until
ORDER BY id
LIMIT 1 OFFSET :skip
