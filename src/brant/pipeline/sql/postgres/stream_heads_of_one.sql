SELECT "offset", topic FROM brant._honker_stream
WHERE topic = :name AND "offset" > :after AND "offset" <= :until
ORDER BY "offset"
LIMIT :rows
