PRAGMA busy_timeout = 30000
