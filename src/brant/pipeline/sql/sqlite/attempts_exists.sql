SELECT 1 FROM knocker_attempts LIMIT 1
