SELECT
    coalesce(pg_sequence_last_value(ids), CASE WHEN has_sequence_privilege(ids, 'SELECT') THEN 0 END) AS last,
    pg_is_in_recovery() AS is_replica
FROM CAST(pg_get_serial_sequence('brant.knocker_deliveries', 'id') AS regclass) AS ids
