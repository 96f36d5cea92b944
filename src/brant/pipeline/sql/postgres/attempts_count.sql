SELECT count(*) FROM brant.knocker_attempts WHERE id > :after AND id <= :until
