SELECT 1 FROM knocker_events LIMIT 1
