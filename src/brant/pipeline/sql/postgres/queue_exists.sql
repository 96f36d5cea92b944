SELECT 1 FROM brant._honker_live LIMIT 1
