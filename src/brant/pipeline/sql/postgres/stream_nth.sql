SELECT "offset" FROM brant._honker_stream
WHERE "offset" > :after AND "offset" <= :until
ORDER BY "offset"
LIMIT 1 OFFSET :skip
