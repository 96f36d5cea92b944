SELECT min(attempt.id)
FROM knocker_attempts AS attempt
JOIN knocker_events AS event ON event.id = attempt.event_id
WHERE event.endpoint_id = (SELECT id FROM knocker_endpoints WHERE name = :name) AND attempt.id > :after
