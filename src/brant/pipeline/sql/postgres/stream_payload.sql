SELECT payload FROM brant._honker_stream WHERE "offset" = :cursor
