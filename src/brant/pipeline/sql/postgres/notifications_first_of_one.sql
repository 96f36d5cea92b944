SELECT min(id) FROM brant._honker_notifications WHERE channel = :name AND id > :after
