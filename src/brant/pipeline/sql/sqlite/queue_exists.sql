SELECT 1 FROM _honker_live LIMIT 1
