SELECT 1 FROM brant._honker_results LIMIT 1
