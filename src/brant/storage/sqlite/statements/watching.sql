-- name: arrivals
SELECT queue FROM _honker_live WHERE id > :after AND id <= :until
UNION ALL
SELECT queue FROM _honker_dead WHERE id > :after AND id <= :until

-- Lapsed leases too: who watches wants to see a worker that is gone.
-- name: running_jobs
SELECT
    id, queue, worker_id,
    CASE WHEN typeof(payload) = 'text' AND json_valid(payload) THEN json_extract(payload, '$.__honker_task__.task') END,
    attempts, max_attempts, claim_expires_at
FROM _honker_live INDEXED BY _honker_live_processing_deadline
WHERE queue = :queue AND state = 'processing'
ORDER BY claim_expires_at LIMIT :limit
