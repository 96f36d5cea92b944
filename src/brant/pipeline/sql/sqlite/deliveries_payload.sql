SELECT x'' AS payload
UNION ALL
SELECT CAST(body_blob AS BLOB) FROM knocker_deliveries WHERE id = :cursor
