SELECT
    (SELECT min(offset) FROM _honker_stream) AS first,
    max(
        coalesce((SELECT max(offset) FROM _honker_stream), 0),
        coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = '_honker_stream'), 0)
    ) AS last
