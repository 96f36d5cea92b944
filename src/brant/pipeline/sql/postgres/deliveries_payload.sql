SELECT body_blob FROM brant.knocker_deliveries WHERE id = :cursor
