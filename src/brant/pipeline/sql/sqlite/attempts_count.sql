SELECT count(*) FROM knocker_attempts WHERE id > :after AND id <= :until
