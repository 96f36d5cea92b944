SELECT count(*) FROM _honker_stream WHERE offset > :after AND offset <= :until
