SELECT
    "offset",
    CASE WHEN :topic = 1 THEN topic END AS topic,
    CASE WHEN :key = 1 THEN key END AS key,
    CASE WHEN :payload = 1 AND octet_length(payload) <= :small THEN payload END AS payload,
    CASE WHEN :created_at = 1 AND abs(created_at) < 9e12 THEN CAST(created_at * 1000000 AS bigint) END AS created_at
FROM brant._honker_stream
WHERE topic = :name AND "offset" > :after AND "offset" <= :until
ORDER BY "offset"
LIMIT :rows
