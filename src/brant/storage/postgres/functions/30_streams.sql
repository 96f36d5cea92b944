CREATE OR REPLACE FUNCTION brant.notify(channel text, payload text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    new_id bigint;
BEGIN
    PERFORM brant._brant_require('notify', channel IS NOT NULL, payload IS NOT NULL);
    INSERT INTO brant._honker_notifications (channel, payload) VALUES (channel, payload) RETURNING id INTO new_id;
    PERFORM brant._brant_ring();
    RETURN new_id;
END
$$;

CREATE OR REPLACE FUNCTION brant.honker_stream_publish(topic text, key text, payload text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    new_offset bigint;
BEGIN
    PERFORM brant._brant_require('honker_stream_publish', topic IS NOT NULL, true, payload IS NOT NULL);
    INSERT INTO brant._honker_stream (topic, key, payload) VALUES (topic, key, payload) RETURNING "offset" INTO new_offset;
    PERFORM brant._brant_ring();
    RETURN new_offset;
END
$$;

CREATE OR REPLACE FUNCTION brant.honker_stream_read_since(topic text, "offset" bigint, "limit" bigint) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM brant._brant_require(
        'honker_stream_read_since', topic IS NOT NULL, "offset" IS NOT NULL, "limit" IS NOT NULL
    );
    RETURN '[' || coalesce((
        SELECT string_agg(CAST(row_to_json(shown) AS text), ',' ORDER BY event."offset")
        FROM brant._brant_read_stream(
            honker_stream_read_since.topic, honker_stream_read_since."offset", honker_stream_read_since."limit"
        ) AS event
        CROSS JOIN LATERAL (SELECT event.created_at, event.key, event."offset", event.payload, event.topic) AS shown
    ), '') || ']';
END
$$;

CREATE OR REPLACE FUNCTION brant.honker_stream_save_offset(consumer text, topic text, "offset" bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM brant._brant_require(
        'honker_stream_save_offset', consumer IS NOT NULL, topic IS NOT NULL, "offset" IS NOT NULL
    );
    INSERT INTO brant._honker_stream_consumers AS known (name, topic, "offset") VALUES (consumer, topic, "offset")
    ON CONFLICT ON CONSTRAINT _honker_stream_consumers_pkey DO UPDATE SET "offset" = excluded."offset"
    WHERE excluded."offset" > known."offset";
    RETURN CAST(FOUND AS integer);
END
$$;

CREATE OR REPLACE FUNCTION brant.honker_stream_get_offset(consumer text, topic text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM brant._brant_require('honker_stream_get_offset', consumer IS NOT NULL, topic IS NOT NULL);
    RETURN coalesce((
        SELECT known."offset" FROM brant._honker_stream_consumers AS known
        WHERE known.name = consumer AND known.topic = honker_stream_get_offset.topic
    ), 0);
END
$$;
