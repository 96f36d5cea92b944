-- name: acquire_lock
INSERT INTO _honker_locks (name, owner, expires_at) VALUES (:name, :owner, :expires_at)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at WHERE expires_at <= :now

-- name: lock_owner
SELECT owner, expires_at FROM _honker_locks WHERE name = :name

-- name: renew_lock
UPDATE _honker_locks SET expires_at = :expires_at WHERE name = :name AND owner = :owner AND expires_at > :now

-- name: release_lock
DELETE FROM _honker_locks WHERE name = :name AND owner = :owner

-- name: sweep_locks
DELETE FROM _honker_locks WHERE expires_at <= :now

-- name: try_rate_limit
INSERT INTO _honker_rate_limits (name, window_start, count) VALUES (:name, :window_start, 1)
ON CONFLICT (name, window_start) DO UPDATE SET count = count + 1 WHERE count < :limit
RETURNING count

-- name: sweep_rate_limits
DELETE FROM _honker_rate_limits WHERE window_start < :before

-- name: save_result
INSERT INTO _honker_results (job_id, value, created_at, expires_at) VALUES (:job_id, :value, :second, :expires_at)
ON CONFLICT (job_id) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at

-- name: get_result
SELECT value FROM _honker_results WHERE job_id = :job_id AND (expires_at IS NULL OR expires_at > :now)

-- name: sweep_results
DELETE FROM _honker_results WHERE expires_at IS NOT NULL AND expires_at <= :now
