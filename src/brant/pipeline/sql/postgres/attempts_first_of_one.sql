SELECT min(attempt.id)
FROM brant.knocker_attempts AS attempt
JOIN brant.knocker_events AS event ON event.id = attempt.event_id
WHERE event.endpoint_id = (SELECT id FROM brant.knocker_endpoints WHERE name = :name) AND attempt.id > :after
