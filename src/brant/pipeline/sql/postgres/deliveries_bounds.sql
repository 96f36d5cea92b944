SELECT
    (SELECT min(id) FROM brant.knocker_deliveries) AS first,
    greatest(
        coalesce((SELECT max(id) FROM brant.knocker_deliveries), 0),
        coalesce(pg_sequence_last_value(CAST(pg_get_serial_sequence('brant.knocker_deliveries', 'id') AS regclass)), 0)
    ) AS last
