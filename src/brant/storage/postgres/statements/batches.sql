-- name: create_batch
INSERT INTO brant._brant_batches
    (id, note, then_queue, then_payload, then_path, then_priority, then_max_attempts, then_expires_s, created_at, keep_s)
VALUES (
    :id, :note, :then_queue, :then_payload, :then_path, :then_priority, :then_max_attempts, :then_expires_s,
    :now, :keep_s
)
ON CONFLICT (id) DO NOTHING

-- Fails where it would fail later, when the two are put together.
-- name: batch_texts_fit
SELECT CAST(CAST(:note AS text) AS jsonb) IS NOT NULL
    AND (CAST(:then_payload AS text) IS NULL OR CAST(CAST(:then_payload AS text) AS jsonb) IS NOT NULL)

-- The jobs can't end before this transaction does: whoever settles them then finds their batch.
-- name: join_batch
INSERT INTO brant._brant_batch_jobs (job_id, batch_id)
SELECT id, :batch FROM (SELECT id FROM brant._honker_live WHERE id = ANY {{ids}} FOR KEY SHARE) AS job
ON CONFLICT (job_id) DO NOTHING
RETURNING job_id

-- name: grow_batch
INSERT INTO brant._brant_batch_changes (batch_id, total) VALUES (:batch, :added)

-- name: other_batch_of
SELECT batch_id FROM brant._brant_batch_jobs WHERE job_id = ANY {{ids}} AND batch_id <> :batch LIMIT 1

-- name: batch_of_job
SELECT batch_id FROM brant._brant_batch_jobs WHERE job_id = :id

-- name: batches_of_jobs
SELECT DISTINCT batch_id FROM brant._brant_batch_jobs WHERE job_id = ANY {{ids}}

-- name: seal_batch
INSERT INTO brant._brant_batch_changes (batch_id, sealed) SELECT id, 1 FROM brant._brant_batches WHERE id = :id

-- name: date_batch_changes
UPDATE brant._brant_batch_changes SET at = :now WHERE transaction = pg_current_xact_id() AND at IS NULL

-- With what this transaction has changed so far.
-- fragment: batch_rows
SELECT
    batch.id, batch.note, batch.total + coalesce(mine.total, 0), batch.succeeded + coalesce(mine.succeeded, 0),
    batch.dead + coalesce(mine.dead, 0), batch.cancelled + coalesce(mine.cancelled, 0),
    greatest(batch.sealed, mine.sealed), batch.settled, batch.created_at, batch.settled_at, batch.then_job_id
FROM brant._brant_batches AS batch
LEFT JOIN LATERAL (
    SELECT CAST(sum(total) AS bigint) AS total, CAST(sum(succeeded) AS bigint) AS succeeded,
        CAST(sum(dead) AS bigint) AS dead, CAST(sum(cancelled) AS bigint) AS cancelled, max(sealed) AS sealed
    FROM brant._brant_batch_changes
    WHERE transaction = pg_current_xact_id_if_assigned() AND batch_id = batch.id
) AS mine ON batch.settled = 0

-- name: get_batch
{{batch_rows}} WHERE batch.id = :id

-- name: list_batches
{{batch_rows}} ORDER BY batch.created_at DESC, batch.id DESC LIMIT :limit

-- The job is locked before its membership, as by whoever settles it: in the other order, two could wait for each other.
-- name: mark_cancelled
WITH job AS MATERIALIZED (
    SELECT id FROM brant._honker_live
    WHERE id = :id AND EXISTS (SELECT 1 FROM brant._brant_batch_jobs WHERE job_id = :id AND state = 'pending')
    FOR UPDATE
)
UPDATE brant._brant_batch_jobs AS member SET state = 'cancelling'
FROM job WHERE member.job_id = job.id AND member.state = 'pending'

-- name: mark_deleted
WITH job AS MATERIALIZED (
    SELECT id FROM brant._honker_live
    WHERE id = :id AND queue = :queue AND {{not_leased}}
        AND EXISTS (SELECT 1 FROM brant._brant_batch_jobs AS member WHERE member.job_id = :id AND member.state = 'pending')
    FOR UPDATE
)
UPDATE brant._brant_batch_jobs AS member SET state = 'cancelling'
FROM job WHERE member.job_id = job.id AND member.state = 'pending'

-- name: mark_queue_deleted
WITH job AS MATERIALIZED (
    SELECT live.id FROM brant._honker_live AS live
    WHERE live.queue = :queue AND live.state IN ('pending', 'processing') AND EXISTS (
        SELECT 1 FROM brant._brant_batch_jobs AS member WHERE member.job_id = live.id AND member.state = 'pending'
    )
    ORDER BY live.id FOR UPDATE
)
UPDATE brant._brant_batch_jobs AS member SET state = 'cancelling'
FROM job WHERE member.job_id = job.id AND member.state = 'pending'

-- name: any_batch_job
SELECT EXISTS (SELECT 1 FROM brant._brant_batch_jobs)

-- Those out of a file where another program settled them have no time yet: their time begins here.
-- name: date_batches
UPDATE brant._brant_batches SET settled_at = :second WHERE settled = 1 AND settled_at IS NULL

-- name: sweep_batches
DELETE FROM brant._brant_batches WHERE settled = 1 AND settled_at + keep_s <= :now
