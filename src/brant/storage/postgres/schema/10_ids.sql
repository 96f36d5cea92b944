-- Ids are microseconds of time, unique and growing. Sequences are not part of transactions: an id is given out at once,
-- and no transaction waits for another one's commit to get one.

CREATE SEQUENCE IF NOT EXISTS brant._brant_job_ids AS bigint MINVALUE 0 START 0;

-- The first of `wanted` new ids: the time if it is higher than all before, else the next higher ones. The lock is the
-- session's and is held within this function only; it is given back when the call is cancelled, too.
CREATE OR REPLACE FUNCTION brant._brant_take_ids(ids regclass, micros bigint, wanted bigint DEFAULT 1) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    first_id bigint;
BEGIN
    PERFORM pg_advisory_lock(1651663214, hashoid(ids));
    first_id := greatest(micros, coalesce(pg_sequence_last_value(ids), 0) + 1);
    PERFORM setval(ids, first_id + wanted - 1);
    PERFORM pg_advisory_unlock(1651663214, hashoid(ids));
    RETURN first_id;
EXCEPTION WHEN OTHERS OR query_canceled THEN
    PERFORM pg_advisory_unlock(1651663214, hashoid(ids));
    RAISE;
END
$$;

-- From now on, only higher ids than this one are given out.
CREATE OR REPLACE FUNCTION brant._brant_raise_ids(ids regclass, highest bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_lock(1651663214, hashoid(ids));
    PERFORM setval(ids, greatest(highest, coalesce(pg_sequence_last_value(ids), 0)));
    PERFORM pg_advisory_unlock(1651663214, hashoid(ids));
EXCEPTION WHEN OTHERS OR query_canceled THEN
    PERFORM pg_advisory_unlock(1651663214, hashoid(ids));
    RAISE;
END
$$;
