SELECT count(*) FROM knocker_deliveries WHERE id > :after AND id <= :until
