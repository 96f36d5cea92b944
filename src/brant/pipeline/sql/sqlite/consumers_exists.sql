SELECT 1 FROM _honker_stream_consumers LIMIT 1
