SELECT brant._brant_horizon(CAST('brant._brant_stream_offsets' AS regclass), :name) AS last
