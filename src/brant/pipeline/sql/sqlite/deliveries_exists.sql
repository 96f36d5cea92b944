SELECT 1 FROM knocker_deliveries LIMIT 1
