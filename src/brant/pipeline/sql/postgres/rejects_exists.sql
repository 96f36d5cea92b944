SELECT 1 FROM brant._brant_inbox_rejects LIMIT 1
