SELECT DISTINCT name FROM brant.knocker_endpoints
