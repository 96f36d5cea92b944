SELECT min(offset) FROM _honker_stream WHERE topic = :name AND offset > :after
