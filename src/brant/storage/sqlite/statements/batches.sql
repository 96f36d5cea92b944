-- name: create_batch
INSERT OR IGNORE INTO _brant_batches
    (id, note, then_queue, then_payload, then_path, then_priority, then_max_attempts, then_expires_s, created_at, keep_s)
VALUES (
    :id, :note, :then_queue, :then_payload, :then_path, :then_priority, :then_max_attempts, :then_expires_s,
    :now, :keep_s
)

-- SQLite nests JSON less deeply than Python, and the trigger that puts the two together must not fail.
-- name: batch_texts_fit
SELECT json_valid('[[[[[[' || :note || ']]]]]]')
    AND (:then_payload IS NULL OR json_valid('[[[[[[' || :then_payload || ']]]]]]'))

-- name: join_batch
INSERT OR IGNORE INTO _brant_batch_jobs (job_id, batch_id)
SELECT value, :batch FROM json_each(:ids) WHERE EXISTS (SELECT 1 FROM _honker_live WHERE id = value)
RETURNING job_id

-- name: grow_batch
UPDATE _brant_batches SET total = total + :added WHERE id = :batch

-- name: other_batch_of
SELECT batch_id FROM _brant_batch_jobs
WHERE job_id IN (SELECT value FROM json_each(:ids)) AND batch_id <> :batch LIMIT 1

-- name: batch_of_job
SELECT batch_id FROM _brant_batch_jobs WHERE job_id = :id

-- name: batches_of_jobs
SELECT DISTINCT batch_id FROM _brant_batch_jobs WHERE job_id IN (SELECT value FROM json_each(:ids))

-- name: seal_batch
UPDATE _brant_batches SET sealed = 1 WHERE id = :id

-- fragment: batch_columns
id, note, total, succeeded, dead, cancelled, sealed, settled, created_at, settled_at, then_job_id

-- name: get_batch
SELECT {{batch_columns}} FROM _brant_batches WHERE id = :id

-- name: list_batches
SELECT {{batch_columns}} FROM _brant_batches ORDER BY created_at DESC, id DESC LIMIT :limit

-- name: newly_settled
SELECT id, then_job_id FROM _brant_batches
WHERE id IN (SELECT value FROM json_each(:ids)) AND settled AND settled_at IS NULL

-- name: date_batch
UPDATE _brant_batches SET settled_at = :second, then_job_id = :job_id WHERE id = :id

-- name: date_callback
UPDATE _honker_live
SET id = :job_id, run_at = :second, created_at = :second,
    expires_at = :second + (SELECT then_expires_s FROM _brant_batches WHERE id = :batch)
WHERE id = :then_job_id AND state = 'pending' AND attempts = 0
RETURNING id, queue, attempts, {{wants_events}}

-- name: mark_cancelled
UPDATE _brant_batch_jobs SET state = 'cancelling'
WHERE job_id = :id AND state = 'pending' AND EXISTS (SELECT 1 FROM _honker_live WHERE id = :id)

-- name: mark_deleted
UPDATE _brant_batch_jobs SET state = 'cancelling'
WHERE job_id = :id AND state = 'pending'
    AND EXISTS (SELECT 1 FROM _honker_live WHERE id = :id AND queue = :queue AND {{not_leased}})

-- name: mark_queue_deleted
UPDATE _brant_batch_jobs SET state = 'cancelling'
WHERE state = 'pending'
    AND job_id IN (SELECT id FROM _honker_live WHERE queue = :queue AND state IN ('pending', 'processing'))

-- name: any_batch_job
SELECT EXISTS (SELECT 1 FROM _brant_batch_jobs)

-- name: mark_taken
UPDATE _brant_batch_jobs SET state = 'taking'
WHERE job_id IN (SELECT job.id {{ready_from}} AND {{in_range}} LIMIT :limit) AND state = 'pending'
RETURNING batch_id

-- name: mark_taken_id
UPDATE _brant_batch_jobs SET state = 'taking'
WHERE job_id IN (SELECT id FROM _honker_live WHERE {{pending_message}}) AND state = 'pending'
RETURNING batch_id

-- One that another program settled has no time yet: its time begins here.
-- name: date_batches
UPDATE _brant_batches SET settled_at = :second WHERE settled AND settled_at IS NULL

-- name: sweep_batches
DELETE FROM _brant_batches WHERE settled AND settled_at + keep_s <= :now
