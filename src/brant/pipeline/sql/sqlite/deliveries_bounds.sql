SELECT
    (SELECT min(id) FROM knocker_deliveries) AS first,
    max(
        coalesce((SELECT max(id) FROM knocker_deliveries), 0),
        coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = 'knocker_deliveries'), 0)
    ) AS last
