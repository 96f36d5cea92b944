SELECT 1 FROM brant.knocker_events LIMIT 1
