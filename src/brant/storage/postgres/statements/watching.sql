-- name: arrivals
SELECT queue FROM brant._honker_live WHERE id > :after AND id <= :until
UNION ALL
SELECT queue FROM brant._honker_dead WHERE id > :after AND id <= :until

-- Lapsed leases too: who watches wants to see a worker that is gone.
-- name: running_jobs
SELECT id, queue, worker_id, brant._brant_task_of(payload), attempts, max_attempts, claim_expires_at
FROM brant._honker_live
WHERE queue = :queue AND state = 'processing'
ORDER BY claim_expires_at LIMIT {{most}}
