SELECT attempt.id
FROM brant.knocker_attempts AS attempt
JOIN brant.knocker_events AS event ON event.id = attempt.event_id
WHERE event.endpoint_id IN (
    SELECT id FROM brant.knocker_endpoints WHERE name IN (SELECT json_array_elements_text(CAST(:names AS json)))
)
    AND attempt.id > :after AND attempt.id <= :until
ORDER BY attempt.id
LIMIT 1 OFFSET :skip
