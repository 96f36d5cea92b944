SELECT count(*) FROM brant._honker_stream
WHERE topic IN (SELECT json_array_elements_text(CAST(:names AS json))) AND "offset" > :after AND "offset" <= :until
