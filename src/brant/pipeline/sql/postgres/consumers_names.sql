SELECT DISTINCT topic FROM brant._honker_stream_consumers
