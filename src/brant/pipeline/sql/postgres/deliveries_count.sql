SELECT count(*) FROM brant.knocker_deliveries WHERE id > :after AND id <= :until
