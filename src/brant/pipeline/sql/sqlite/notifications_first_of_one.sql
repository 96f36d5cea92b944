SELECT min(id) FROM _honker_notifications WHERE channel = :name AND id > :after
