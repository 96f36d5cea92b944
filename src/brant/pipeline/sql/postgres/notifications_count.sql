SELECT count(*) FROM brant._honker_notifications WHERE id > :after AND id <= :until
