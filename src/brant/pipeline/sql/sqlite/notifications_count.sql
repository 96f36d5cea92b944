SELECT count(*) FROM _honker_notifications WHERE id > :after AND id <= :until
