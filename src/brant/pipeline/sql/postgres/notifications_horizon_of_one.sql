SELECT brant._brant_horizon(CAST('brant._brant_notification_ids' AS regclass), :name) AS last
