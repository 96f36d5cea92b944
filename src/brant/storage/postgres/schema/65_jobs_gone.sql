-- Keys, errors, limits and batches follow the job whoever deletes it: Brant or plain SQL. A move to the dead inserts there
-- before it deletes here, and a requeue the other way round. One look tells most statements that there is nothing to do.
-- The settings: a plan that was made while a table was small must not walk it when it is large.
CREATE OR REPLACE FUNCTION brant._brant_live_gone() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    have record;
BEGIN
    SELECT
        EXISTS (SELECT 1 FROM gone JOIN brant._brant_unique AS held ON held.job_id = gone.id) AS keys,
        EXISTS (SELECT 1 FROM gone JOIN brant._brant_attempts AS failed ON failed.job_id = gone.id) AS attempts,
        EXISTS (SELECT 1 FROM gone JOIN brant._brant_limited AS limited ON limited.job_id = gone.id) AS limits,
        EXISTS (SELECT 1 FROM gone JOIN brant._brant_batch_jobs AS member ON member.job_id = gone.id) AS batches
    INTO have;
    IF have.keys THEN
        DELETE FROM brant._brant_unique AS held USING gone WHERE held.job_id = gone.id AND held.expires_at IS NULL;
    END IF;
    IF have.attempts THEN
        DELETE FROM brant._brant_attempts AS failed USING gone
        WHERE failed.job_id = gone.id AND NOT EXISTS (SELECT 1 FROM brant._honker_dead AS dead WHERE dead.id = gone.id);
    END IF;
    IF have.limits THEN
        UPDATE brant._brant_limited AS limited SET running = 0, run_at = NULL
        FROM gone JOIN brant._honker_dead AS dead ON dead.id = gone.id WHERE limited.job_id = gone.id;
        DELETE FROM brant._brant_limited AS limited USING gone
        WHERE limited.job_id = gone.id AND NOT EXISTS (SELECT 1 FROM brant._honker_dead AS dead WHERE dead.id = gone.id);
    END IF;
    IF have.batches THEN
        -- A job that is deleted while nobody has claimed it was cancelled.
        UPDATE brant._brant_batch_jobs AS member
        SET state = CASE
            WHEN EXISTS (SELECT 1 FROM brant._honker_dead AS dead WHERE dead.id = gone.id) THEN 'dead'
            WHEN member.state = 'cancelling' OR (member.state = 'pending' AND gone.state = 'pending') THEN 'cancelled'
            ELSE 'succeeded'
        END
        FROM gone WHERE member.job_id = gone.id AND member.state IN ('pending', 'cancelling', 'taking');
    END IF;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER _brant_live_gone AFTER DELETE ON brant._honker_live
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION brant._brant_live_gone();

CREATE OR REPLACE FUNCTION brant._brant_dead_gone() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    DELETE FROM brant._brant_attempts AS failed USING gone
    WHERE failed.job_id = gone.id AND NOT EXISTS (SELECT 1 FROM brant._honker_live AS live WHERE live.id = gone.id);
    DELETE FROM brant._brant_limited AS limited USING gone
    WHERE limited.job_id = gone.id AND NOT EXISTS (SELECT 1 FROM brant._honker_live AS live WHERE live.id = gone.id);
    UPDATE brant._brant_batch_jobs AS member SET state = 'pending'
    FROM gone WHERE member.job_id = gone.id AND member.state = 'dead'
        AND EXISTS (SELECT 1 FROM brant._honker_live AS live WHERE live.id = gone.id);
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER _brant_dead_gone AFTER DELETE ON brant._honker_dead
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION brant._brant_dead_gone();
