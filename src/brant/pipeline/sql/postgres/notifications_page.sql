SELECT
    id,
    CASE WHEN :channel = 1 THEN channel END AS channel,
    CASE WHEN :payload = 1 AND octet_length(payload) <= :small THEN payload END AS payload,
    CASE WHEN :created_at = 1 AND abs(created_at) < 9e12 THEN CAST(created_at * 1000000 AS bigint) END AS created_at
FROM brant._honker_notifications
WHERE id > :after AND id <= :until
ORDER BY id
LIMIT :rows
