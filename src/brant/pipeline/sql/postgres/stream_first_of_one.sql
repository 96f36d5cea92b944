SELECT min("offset") FROM brant._honker_stream WHERE topic = :name AND "offset" > :after
