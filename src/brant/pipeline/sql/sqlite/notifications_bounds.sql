SELECT
    (SELECT min(id) FROM _honker_notifications) AS first,
    max(
        coalesce((SELECT max(id) FROM _honker_notifications), 0),
        coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = '_honker_notifications'), 0)
    ) AS last
