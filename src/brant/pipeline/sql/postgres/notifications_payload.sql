SELECT payload FROM brant._honker_notifications WHERE id = :cursor
