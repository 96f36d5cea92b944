SELECT 1 FROM _brant_inbox_rejects LIMIT 1
