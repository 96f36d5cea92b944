SELECT
    (SELECT min(id) FROM brant._honker_notifications) AS first,
    greatest(
        coalesce((SELECT max(id) FROM brant._honker_notifications), 0),
        coalesce(pg_sequence_last_value(CAST('brant._brant_notification_ids' AS regclass)), 0)
    ) AS last
