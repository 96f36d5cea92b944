SELECT
    (SELECT min(id) FROM brant.knocker_attempts) AS first,
    greatest(
        coalesce((SELECT max(id) FROM brant.knocker_attempts), 0),
        coalesce(pg_sequence_last_value(CAST(pg_get_serial_sequence('brant.knocker_attempts', 'id') AS regclass)), 0)
    ) AS last
