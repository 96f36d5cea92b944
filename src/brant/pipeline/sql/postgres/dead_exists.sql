SELECT 1 FROM brant._honker_dead LIMIT 1
