SELECT
    coalesce(pg_sequence_last_value(ids), CASE WHEN has_sequence_privilege(ids, 'SELECT') THEN 0 END) AS last,
    pg_is_in_recovery() AS is_replica
FROM CAST('brant._brant_stream_offsets' AS regclass) AS ids
