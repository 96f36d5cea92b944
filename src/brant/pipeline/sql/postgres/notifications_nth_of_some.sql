SELECT id FROM brant._honker_notifications
WHERE channel IN (SELECT json_array_elements_text(CAST(:names AS json))) AND id > :after AND id <= :until
ORDER BY id
LIMIT 1 OFFSET :skip
