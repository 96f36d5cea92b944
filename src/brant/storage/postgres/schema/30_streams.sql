-- The time as SQL functions and triggers know it: the server's, unless a test has set another one.
CREATE OR REPLACE FUNCTION brant._brant_now() RETURNS double precision LANGUAGE sql STABLE AS $$
    SELECT coalesce(
        CAST(nullif(current_setting('brant_clock.now', true), '') AS double precision),
        CAST(extract(epoch FROM clock_timestamp()) AS double precision)
    )
$$;

CREATE SEQUENCE IF NOT EXISTS brant._brant_stream_offsets AS bigint;
CREATE SEQUENCE IF NOT EXISTS brant._brant_notification_ids AS bigint MINVALUE 0 START 0;

CREATE TABLE IF NOT EXISTS brant._honker_stream (
    "offset" bigint PRIMARY KEY,
    topic text COLLATE "C" NOT NULL,
    key text,
    payload text NOT NULL,
    created_at double precision NOT NULL DEFAULT floor(brant._brant_now())
);
CREATE INDEX IF NOT EXISTS _honker_stream_topic ON brant._honker_stream (topic, "offset");

CREATE TABLE IF NOT EXISTS brant._honker_stream_consumers (
    name text COLLATE "C" NOT NULL,
    topic text COLLATE "C" NOT NULL,
    "offset" bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (name, topic)
);

CREATE TABLE IF NOT EXISTS brant._honker_notifications (
    id bigint PRIMARY KEY,
    channel text COLLATE "C" NOT NULL,
    payload text NOT NULL,
    created_at double precision NOT NULL DEFAULT floor(brant._brant_now())
);
CREATE INDEX IF NOT EXISTS _honker_notifications_recent ON brant._honker_notifications (channel, id);

-- Transactions commit in another order than they took their offsets in, and who reads behind an offset must not pass
-- one that is still to come. So whoever publishes first announces the lowest offset that it may get, by a shared
-- advisory lock which ends with its transaction, and readers stop below the lowest that is announced. A transaction
-- that publishes nothing announces nothing, and holds nobody up.
--
-- The key of such a lock: 22 bits for the sequence and the topic, 42 for the offset. Those of two topics may be the
-- same by chance: then one topic waits for the other, and nothing else happens.
CREATE OR REPLACE FUNCTION brant._brant_tag(ids regclass, topic text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT 1 + (hashtextextended(topic, CAST(CAST(ids AS oid) AS bigint)) & 4194303) % 4194303
$$;

-- Once a transaction and topic is enough, since the offsets grow. What is announced is noted in a setting, which a
-- rollback to a savepoint undoes as it does the lock. Many topics in one transaction share a lock that counts for all
-- topics: the server has room for so many locks only.
CREATE OR REPLACE FUNCTION brant._brant_announce(ids regclass, topic text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    announced text := coalesce(nullif(current_setting('brant_announced.tags', true), ''), ' ');
    all_topics bigint := brant._brant_tag(ids, '');
    tag bigint := brant._brant_tag(ids, topic);
BEGIN
    IF strpos(announced, ' ' || tag || ' ') > 0 OR strpos(announced, ' ' || all_topics || ' ') > 0 THEN
        RETURN;
    END IF;
    IF length(announced) > 120 THEN
        tag := all_topics;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(
        (tag << 42) | ((coalesce(pg_sequence_last_value(ids), 0) + 1) & 4398046511103)
    );
    PERFORM set_config('brant_announced.tags', announced || tag || ' ', true);
END
$$;

-- Up to where everything is committed or gone, of one topic. The order matters: first what was given out, then what is
-- announced; the rows are for a later statement to read, whose snapshot has all that was not announced any more.
CREATE OR REPLACE FUNCTION brant._brant_horizon(ids regclass, topic text) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    given_out bigint := coalesce(pg_sequence_last_value(ids), 0);
    of_topic bigint := brant._brant_tag(ids, topic);
    of_all bigint := brant._brant_tag(ids, '');
    held_up bigint;
BEGIN
    -- How far the lowest announced offset is behind the next new one. The 42 bits are those of numbers that repeat: what
    -- seems to be very far behind was announced a moment ago and is ahead.
    SELECT max(behind) INTO held_up
    FROM (
        SELECT (given_out + 1 - (((CAST(classid AS bigint) & 1023) << 32) | CAST(objid AS bigint))) & 4398046511103 AS behind
        FROM pg_locks
        WHERE locktype = 'advisory' AND objsubid = 1 AND mode = 'ShareLock'
            AND CAST(classid AS bigint) >> 10 IN (of_topic, of_all)
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND pid IS DISTINCT FROM pg_backend_pid()
    ) AS announced
    WHERE behind < 2199023255552;
    RETURN given_out - coalesce(held_up, 0);
END
$$;

CREATE OR REPLACE FUNCTION brant._brant_next_offset(topic text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM brant._brant_announce('brant._brant_stream_offsets', topic);
    RETURN nextval('brant._brant_stream_offsets');
END
$$;

CREATE OR REPLACE FUNCTION brant._brant_next_notification(channel text, micros bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM brant._brant_announce('brant._brant_notification_ids', channel);
    RETURN brant._brant_take_ids('brant._brant_notification_ids', micros);
END
$$;

-- What others insert by plain SQL is numbered in the same way.
CREATE OR REPLACE FUNCTION brant._brant_number_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW."offset" := brant._brant_next_offset(NEW.topic);
    RETURN NEW;
END
$$;
CREATE OR REPLACE TRIGGER _brant_number_event BEFORE INSERT ON brant._honker_stream
    FOR EACH ROW WHEN (NEW."offset" IS NULL) EXECUTE FUNCTION brant._brant_number_event();

CREATE OR REPLACE FUNCTION brant._brant_number_notification() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.id := brant._brant_next_notification(NEW.channel, CAST(floor(brant._brant_now() * 1000000) AS bigint));
    RETURN NEW;
END
$$;
CREATE OR REPLACE TRIGGER _brant_number_notification BEFORE INSERT ON brant._honker_notifications
    FOR EACH ROW WHEN (NEW.id IS NULL) EXECUTE FUNCTION brant._brant_number_notification();

-- With one snapshot for all of a transaction, a publisher that ends between that and the look at the locks is in
-- neither, and its events would be passed over for ever; a standby knows no locks of the server that it follows.
CREATE OR REPLACE FUNCTION brant._brant_require_horizon() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'streams and channels are read at READ COMMITTED; at % events that commit meanwhile would be lost',
            upper(current_setting('transaction_isolation')) USING ERRCODE = 'active_sql_transaction';
    END IF;
    IF pg_is_in_recovery() THEN
        RAISE EXCEPTION 'streams and channels can''t be read on a standby: read them on the server that it follows'
            USING ERRCODE = 'read_only_sql_transaction';
    END IF;
END
$$;

-- Each statement of these functions has a snapshot of its own. Where there is nothing behind the offset, which is what
-- most who were woken find, the locks are not looked at.
CREATE OR REPLACE FUNCTION brant._brant_read_stream(in_topic text, after_offset bigint, most bigint)
RETURNS SETOF brant._honker_stream LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    horizon bigint;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM brant._honker_stream WHERE topic = in_topic AND "offset" > after_offset) THEN
        RETURN;
    END IF;
    PERFORM brant._brant_require_horizon();
    horizon := brant._brant_horizon('brant._brant_stream_offsets', in_topic);
    RETURN QUERY SELECT event.* FROM brant._honker_stream AS event
        WHERE event.topic = in_topic AND event."offset" > after_offset AND event."offset" <= horizon
        ORDER BY event."offset" LIMIT CASE WHEN most >= 0 THEN most END;
END
$$;

CREATE OR REPLACE FUNCTION brant._brant_stream_head(in_topic text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    horizon bigint := brant._brant_horizon('brant._brant_stream_offsets', in_topic);
BEGIN
    RETURN coalesce((
        SELECT max("offset") FROM brant._honker_stream WHERE topic = in_topic AND "offset" <= horizon
    ), 0);
END
$$;

CREATE OR REPLACE FUNCTION brant._brant_read_notifications(in_channel text, after_id bigint, most bigint)
RETURNS SETOF brant._honker_notifications LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    horizon bigint;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM brant._honker_notifications WHERE channel = in_channel AND id > after_id) THEN
        RETURN;
    END IF;
    PERFORM brant._brant_require_horizon();
    horizon := brant._brant_horizon('brant._brant_notification_ids', in_channel);
    RETURN QUERY SELECT told.* FROM brant._honker_notifications AS told
        WHERE told.channel = in_channel AND told.id > after_id AND told.id <= horizon
        ORDER BY told.id LIMIT CASE WHEN most >= 0 THEN most END;
END
$$;

CREATE OR REPLACE FUNCTION brant._brant_last_notification(in_channel text) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    horizon bigint := brant._brant_horizon('brant._brant_notification_ids', in_channel);
BEGIN
    RETURN coalesce((
        SELECT max(id) FROM brant._honker_notifications WHERE channel = in_channel AND id <= horizon
    ), 0);
END
$$;
