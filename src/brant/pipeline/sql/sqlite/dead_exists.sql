SELECT 1 FROM _honker_dead LIMIT 1
