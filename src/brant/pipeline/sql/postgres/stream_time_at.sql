SELECT "offset", created_at FROM brant._honker_stream WHERE "offset" >= :cursor ORDER BY "offset" LIMIT 1
