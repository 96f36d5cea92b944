SELECT x'' AS payload
UNION ALL
SELECT CAST(payload AS BLOB) FROM _honker_notifications WHERE id = :cursor
