SELECT
    (SELECT min("offset") FROM brant._honker_stream) AS first,
    greatest(
        coalesce((SELECT max("offset") FROM brant._honker_stream), 0),
        coalesce(pg_sequence_last_value(CAST('brant._brant_stream_offsets' AS regclass)), 0)
    ) AS last
