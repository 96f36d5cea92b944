SELECT DISTINCT name FROM knocker_endpoints
