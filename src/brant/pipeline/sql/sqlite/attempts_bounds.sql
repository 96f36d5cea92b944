SELECT
    (SELECT min(id) FROM knocker_attempts) AS first,
    max(
        coalesce((SELECT max(id) FROM knocker_attempts), 0),
        coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = 'knocker_attempts'), 0)
    ) AS last
