-- A lock that is held is only read: ON CONFLICT would lock its row, and have the holder wait to renew it.
-- name: acquire_lock
INSERT INTO brant._honker_locks AS held (name, owner, expires_at)
SELECT CAST(:name AS text), CAST(:owner AS text), CAST(:expires_at AS double precision)
WHERE NOT EXISTS (SELECT 1 FROM brant._honker_locks WHERE name = CAST(:name AS text) AND expires_at > :now)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at
WHERE held.expires_at <= :now

-- name: lock_owner
SELECT owner, expires_at FROM brant._honker_locks WHERE name = :name

-- name: renew_lock
UPDATE brant._honker_locks SET expires_at = :expires_at WHERE name = :name AND owner = :owner AND expires_at > :now

-- name: release_lock
DELETE FROM brant._honker_locks WHERE name = :name AND owner = :owner

-- name: sweep_locks
DELETE FROM brant._honker_locks
WHERE name IN (SELECT name FROM brant._honker_locks WHERE expires_at <= :now FOR UPDATE SKIP LOCKED)

-- name: try_rate_limit
INSERT INTO brant._honker_rate_limits AS counted (name, window_start, count) VALUES (:name, :window_start, 1)
ON CONFLICT (name, window_start) DO UPDATE SET count = counted.count + 1 WHERE counted.count < :limit
RETURNING counted.count

-- name: sweep_rate_limits
DELETE FROM brant._honker_rate_limits WHERE window_start < :before

-- name: save_result
INSERT INTO brant._honker_results (job_id, value, created_at, expires_at)
VALUES (:job_id, :value, :second, :expires_at)
ON CONFLICT (job_id) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at

-- name: get_result
SELECT value FROM brant._honker_results WHERE job_id = :job_id AND (expires_at IS NULL OR expires_at > :now)

-- name: sweep_results
DELETE FROM brant._honker_results WHERE expires_at IS NOT NULL AND expires_at <= :now
