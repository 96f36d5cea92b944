SELECT id FROM brant.knocker_deliveries
WHERE endpoint_id IN (
    SELECT id FROM brant.knocker_endpoints WHERE name IN (SELECT json_array_elements_text(CAST(:names AS json)))
)
    AND id > :after AND id <= :until
ORDER BY id
LIMIT 1 OFFSET :skip
