SELECT id FROM brant._honker_notifications
WHERE channel = :name AND id > :after AND id <= :until
ORDER BY id
LIMIT 1 OFFSET :skip
