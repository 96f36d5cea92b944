-- A batch: how many jobs it has, how they ended, and the job that is enqueued when all have. `then_path` is where that
-- job's payload gets the numbers. `settled_at` is null until the batch is settled.
CREATE TABLE IF NOT EXISTS brant._brant_batches (
    id bigint PRIMARY KEY,
    note text NOT NULL,
    then_queue text COLLATE "C",
    then_payload text,
    then_path text,
    then_priority bigint,
    then_max_attempts bigint,
    then_expires_s double precision,
    then_job_id bigint,
    total bigint NOT NULL DEFAULT 0,
    succeeded bigint NOT NULL DEFAULT 0,
    dead bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    sealed smallint NOT NULL DEFAULT 0 CHECK (sealed IN (0, 1)),
    settled smallint NOT NULL DEFAULT 0 CHECK (settled IN (0, 1)),
    created_at double precision NOT NULL,
    settled_at double precision,
    keep_s double precision NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX IF NOT EXISTS _brant_batches_recent ON brant._brant_batches (created_at, id);

-- How a member stands: 'pending', 'succeeded', 'dead' or 'cancelled'; 'cancelling' and 'taking' say, within the
-- transaction that deletes the job, what its deletion means.
CREATE TABLE IF NOT EXISTS brant._brant_batch_jobs (
    job_id bigint PRIMARY KEY,
    batch_id bigint NOT NULL,
    state text NOT NULL DEFAULT 'pending'
);
CREATE INDEX IF NOT EXISTS _brant_batch_jobs_batch ON brant._brant_batch_jobs (batch_id);

-- What a transaction adds to the numbers of its batches. They are added up at its commit, and the rows are gone with it:
-- the row of a batch is locked by one commit after the other, and not for as long as a transaction that settles one of its
-- jobs goes on. `at` is the time of whoever settles, if it told it.
CREATE TABLE IF NOT EXISTS brant._brant_batch_changes (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    transaction xid8 NOT NULL DEFAULT pg_current_xact_id(),
    batch_id bigint NOT NULL,
    total bigint NOT NULL DEFAULT 0,
    succeeded bigint NOT NULL DEFAULT 0,
    dead bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    sealed smallint NOT NULL DEFAULT 0,
    at double precision
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX IF NOT EXISTS _brant_batch_changes_transaction ON brant._brant_batch_changes (transaction);

-- Counting, from the job to its batch.
-- Once a statement. The setting: whose trigger this follows may have turned it off.
CREATE OR REPLACE FUNCTION brant._brant_batch_counted() RETURNS trigger LANGUAGE plpgsql SET enable_hashjoin = on AS $$
BEGIN
    INSERT INTO brant._brant_batch_changes (batch_id, succeeded, dead, cancelled)
    SELECT changed.batch_id,
        sum(CAST(changed.state = 'succeeded' AS integer) - CAST(before.state = 'succeeded' AS integer)),
        sum(CAST(changed.state = 'dead' AS integer) - CAST(before.state = 'dead' AS integer)),
        sum(CAST(changed.state = 'cancelled' AS integer) - CAST(before.state = 'cancelled' AS integer))
    FROM changed JOIN before ON before.job_id = changed.job_id
    WHERE before.state <> changed.state AND (
        before.state IN ('succeeded', 'dead', 'cancelled') OR changed.state IN ('succeeded', 'dead', 'cancelled')
    )
    GROUP BY changed.batch_id;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER _brant_batch_counted AFTER UPDATE ON brant._brant_batch_jobs
    REFERENCING OLD TABLE AS before NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION brant._brant_batch_counted();

-- The commit: the first of the transaction's changes adds all of them up. The batches are changed, and thereby locked, in
-- one order, so that two commits never wait for each other.
CREATE OR REPLACE FUNCTION brant._brant_batch_changed() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    change record;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM brant._brant_batch_changes WHERE number = NEW.number) THEN
        RETURN NULL;
    END IF;
    FOR change IN
        WITH mine AS (DELETE FROM brant._brant_batch_changes WHERE transaction = pg_current_xact_id() RETURNING *)
        SELECT batch_id, sum(total) AS total, sum(succeeded) AS succeeded, sum(dead) AS dead, sum(cancelled) AS cancelled,
            max(sealed) AS sealed, max(at) AS at
        FROM mine GROUP BY batch_id ORDER BY batch_id
    LOOP
        UPDATE brant._brant_batches AS batch
        SET total = batch.total + change.total, succeeded = batch.succeeded + change.succeeded,
            dead = batch.dead + change.dead, cancelled = batch.cancelled + change.cancelled,
            sealed = greatest(batch.sealed, change.sealed)
        WHERE batch.id = change.batch_id AND batch.settled = 0;
        IF FOUND THEN
            PERFORM brant._brant_settle_batch(change.batch_id, coalesce(change.at, brant._brant_now()));
        ELSIF change.total > 0 THEN
            RAISE EXCEPTION 'batch % was settled at the same time: nothing can be added to it; make another one',
                change.batch_id USING ERRCODE = 'data_exception';
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;
CREATE OR REPLACE FUNCTION brant._brant_settle_batch(in_batch bigint, at double precision) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    batch brant._brant_batches;
    at_second double precision := floor(at);
    job_id bigint;
    numbers jsonb;
BEGIN
    SELECT * INTO batch FROM brant._brant_batches
    WHERE id = in_batch AND sealed = 1 AND total = succeeded + dead + cancelled;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF batch.then_queue IS NOT NULL THEN
        job_id := brant._brant_take_ids('brant._brant_job_ids', CAST(floor(at * 1000000) AS bigint));
        numbers := jsonb_build_object(
            'id', batch.id, 'note', CAST(batch.note AS jsonb), 'total', batch.total,
            'succeeded', batch.succeeded, 'dead', batch.dead, 'cancelled', batch.cancelled
        );
        INSERT INTO brant._honker_live
            (id, queue, payload, priority, run_at, max_attempts, created_at, expires_at)
        VALUES (
            job_id, batch.then_queue, brant._brant_with_numbers(batch.then_payload, batch.then_path, numbers),
            batch.then_priority, at_second, batch.then_max_attempts, at_second, at_second + batch.then_expires_s
        );
        PERFORM brant._brant_emit('enqueued', batch.then_queue, job_id, 0, at, '');
    END IF;
    UPDATE brant._brant_batches SET settled = 1, settled_at = at_second, then_job_id = job_id WHERE id = batch.id;
END
$$;
CREATE OR REPLACE FUNCTION brant._brant_with_numbers(payload text, path text, numbers jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CAST(jsonb_set(CAST(payload AS jsonb), string_to_array(substr(path, 3), '.'), numbers) AS text)
$$;

DO $$
BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM pg_trigger
        WHERE tgname = '_brant_batch_changed' AND tgrelid = CAST('brant._brant_batch_changes' AS regclass)
    ) THEN
        CREATE CONSTRAINT TRIGGER _brant_batch_changed AFTER INSERT ON brant._brant_batch_changes
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION brant._brant_batch_changed();
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION brant._brant_batch_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM brant._brant_batch_jobs WHERE batch_id = OLD.id;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER _brant_batch_gone AFTER DELETE ON brant._brant_batches
    FOR EACH ROW EXECUTE FUNCTION brant._brant_batch_gone();
