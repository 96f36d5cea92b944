SELECT 1 FROM brant._honker_stream_consumers LIMIT 1
