SELECT 1 FROM _honker_results LIMIT 1
