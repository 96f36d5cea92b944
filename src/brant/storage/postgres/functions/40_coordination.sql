CREATE OR REPLACE FUNCTION brant.honker_lock_acquire(name text, owner text, ttl_s bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM brant._brant_require('honker_lock_acquire', name IS NOT NULL, owner IS NOT NULL, ttl_s IS NOT NULL);
    -- A lock that is held is only read: ON CONFLICT would lock its row, and have the holder wait to renew it.
    INSERT INTO brant._honker_locks AS held (name, owner, expires_at)
    SELECT honker_lock_acquire.name, honker_lock_acquire.owner, brant._brant_at_least(ttl_s)
    WHERE NOT EXISTS (
        SELECT 1 FROM brant._honker_locks AS other
        WHERE other.name = honker_lock_acquire.name AND other.expires_at > brant._brant_now()
    )
    ON CONFLICT ON CONSTRAINT _honker_locks_pkey DO UPDATE
    SET owner = excluded.owner, expires_at = excluded.expires_at WHERE held.expires_at <= brant._brant_now();
    RETURN CAST(EXISTS (
        SELECT 1 FROM brant._honker_locks AS held
        WHERE held.name = honker_lock_acquire.name AND held.owner = honker_lock_acquire.owner
    ) AS integer);
END
$$;

CREATE OR REPLACE FUNCTION brant.honker_lock_renew(name text, owner text, ttl_s bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM brant._brant_require('honker_lock_renew', name IS NOT NULL, owner IS NOT NULL, ttl_s IS NOT NULL);
    IF ttl_s <= 0 THEN
        RAISE EXCEPTION 'ttl must be positive, not %', ttl_s USING ERRCODE = 'invalid_parameter_value';
    END IF;
    UPDATE brant._honker_locks AS held SET expires_at = brant._brant_at_least(ttl_s)
    WHERE held.name = honker_lock_renew.name AND held.owner = honker_lock_renew.owner
        AND held.expires_at > brant._brant_now();
    RETURN CAST(FOUND AS integer);
END
$$;

CREATE OR REPLACE FUNCTION brant.honker_lock_release(name text, owner text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM brant._brant_require('honker_lock_release', name IS NOT NULL, owner IS NOT NULL);
    DELETE FROM brant._honker_locks AS held
    WHERE held.name = honker_lock_release.name AND held.owner = honker_lock_release.owner;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    PERFORM brant._brant_ring();
    RETURN 1;
END
$$;

CREATE OR REPLACE FUNCTION brant.honker_rate_limit_try(name text, "limit" bigint, per bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM brant._brant_require('honker_rate_limit_try', name IS NOT NULL, "limit" IS NOT NULL, per IS NOT NULL);
    IF "limit" <= 0 OR per <= 0 THEN
        RAISE EXCEPTION 'limit and per must be positive, not % and %', "limit", per
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO brant._honker_rate_limits AS counted (name, window_start, count)
    VALUES (name, CAST(floor(brant._brant_now()) AS bigint) / per * per, 1)
    ON CONFLICT ON CONSTRAINT _honker_rate_limits_pkey DO UPDATE SET count = counted.count + 1
    WHERE counted.count < "limit";
    RETURN CAST(FOUND AS integer);
END
$$;

CREATE OR REPLACE FUNCTION brant.honker_rate_limit_sweep(older_than_s bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    swept bigint;
BEGIN
    PERFORM brant._brant_require('honker_rate_limit_sweep', older_than_s IS NOT NULL);
    DELETE FROM brant._honker_rate_limits WHERE window_start < floor(brant._brant_now()) - older_than_s;
    GET DIAGNOSTICS swept = ROW_COUNT;
    RETURN swept;
END
$$;

CREATE OR REPLACE FUNCTION brant.honker_result_save(id bigint, value text, ttl_s bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM brant._brant_require('honker_result_save', id IS NOT NULL, value IS NOT NULL, ttl_s IS NOT NULL);
    INSERT INTO brant._honker_results (job_id, value, created_at, expires_at)
    VALUES (id, value, floor(brant._brant_now()), CASE WHEN ttl_s > 0 THEN brant._brant_at_least(ttl_s) END)
    ON CONFLICT (job_id) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at;
    PERFORM brant._brant_ring();
    RETURN 1;
END
$$;

CREATE OR REPLACE FUNCTION brant.honker_result_get(id bigint) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM brant._brant_require('honker_result_get', id IS NOT NULL);
    RETURN (
        SELECT result.value FROM brant._honker_results AS result
        WHERE result.job_id = id AND (result.expires_at IS NULL OR result.expires_at > brant._brant_now())
    );
END
$$;

CREATE OR REPLACE FUNCTION brant.honker_result_sweep() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    swept bigint;
BEGIN
    DELETE FROM brant._honker_results WHERE expires_at IS NOT NULL AND expires_at <= brant._brant_now();
    GET DIAGNOSTICS swept = ROW_COUNT;
    RETURN swept;
END
$$;
