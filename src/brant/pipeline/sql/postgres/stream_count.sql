SELECT count(*) FROM brant._honker_stream WHERE "offset" > :after AND "offset" <= :until
