-- name: busy_timeout
PRAGMA busy_timeout = 30000
