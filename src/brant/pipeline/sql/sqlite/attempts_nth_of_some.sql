SELECT attempt.id
FROM knocker_attempts AS attempt
JOIN knocker_events AS event ON event.id = attempt.event_id
WHERE event.endpoint_id IN (SELECT id FROM knocker_endpoints WHERE name IN (SELECT value FROM json_each(:names)))
    AND attempt.id > :after AND attempt.id <= :until
ORDER BY attempt.id
LIMIT 1 OFFSET :skip
