-- name: publish
INSERT INTO brant._honker_stream ("offset", topic, key, payload, created_at)
VALUES (brant._brant_next_offset(:topic), :topic, :key, :payload, :second)
RETURNING "offset"

-- name: publish_many
WITH announced AS MATERIALIZED (SELECT brant._brant_announce('brant._brant_stream_offsets', :topic))
INSERT INTO brant._honker_stream ("offset", topic, key, payload, created_at)
SELECT nextval('brant._brant_stream_offsets'), :topic, item.value ->> 0, item.value ->> 1, :second
FROM announced CROSS JOIN json_array_elements(CAST(:events AS json)) AS item (value)
RETURNING "offset"

-- name: read_stream
SELECT "offset", topic, key, payload, created_at FROM brant._brant_read_stream(:topic, :after, :limit)

-- name: stream_head
SELECT brant._brant_stream_head(:topic)

-- name: save_offset
INSERT INTO brant._honker_stream_consumers AS known (name, topic, "offset") VALUES (:consumer, :topic, :offset)
ON CONFLICT (name, topic) DO UPDATE SET "offset" = excluded."offset" WHERE excluded."offset" > known."offset"

-- name: get_offset
SELECT "offset" FROM brant._honker_stream_consumers WHERE name = :consumer AND topic = :topic

-- name: list_consumers
SELECT name, "offset", (
    SELECT count(*) FROM brant._honker_stream AS event
    WHERE event.topic = :topic AND event."offset" > consumer."offset"
)
FROM brant._honker_stream_consumers AS consumer WHERE topic = :topic ORDER BY name

-- name: forget_consumer
DELETE FROM brant._honker_stream_consumers WHERE name = :consumer AND topic = :topic

-- name: topics
WITH RECURSIVE seen (topic) AS (
    (SELECT min(topic) FROM brant._honker_stream)
    UNION ALL
    SELECT (SELECT min(event.topic) FROM brant._honker_stream AS event WHERE event.topic > seen.topic)
    FROM seen WHERE seen.topic IS NOT NULL
)
SELECT topic FROM seen WHERE topic IS NOT NULL

-- Who has published to a topic and not ended its transaction since then: readers of the topic wait for it.
-- name: streams_held_up
WITH RECURSIVE seen (topic) AS (
    (SELECT min(topic) FROM brant._honker_stream)
    UNION ALL
    SELECT (SELECT min(event.topic) FROM brant._honker_stream AS event WHERE event.topic > seen.topic)
    FROM seen WHERE seen.topic IS NOT NULL
)
SELECT seen.topic, publisher.pid, coalesce(publisher.application_name, ''), coalesce(publisher.usename, ''),
    CAST(extract(epoch FROM clock_timestamp() - publisher.xact_start) AS double precision)
FROM pg_locks AS announced
JOIN pg_stat_activity AS publisher ON publisher.pid = announced.pid
JOIN seen ON CAST(announced.classid AS bigint) >> 10 IN (
    brant._brant_tag('brant._brant_stream_offsets', seen.topic), brant._brant_tag('brant._brant_stream_offsets', '')
)
WHERE announced.locktype = 'advisory' AND announced.objsubid = 1 AND announced.mode = 'ShareLock'
    AND publisher.datname = current_database()
    AND publisher.xact_start < clock_timestamp() - make_interval(secs => :seconds)
ORDER BY publisher.xact_start, seen.topic

-- name: prune_stream
DELETE FROM brant._honker_stream
WHERE topic = :topic AND "offset" <= :up_to
    AND (CAST(:created_before AS double precision) IS NULL OR created_at < CAST(:created_before AS double precision))

-- name: slowest_offset
SELECT min("offset") FROM brant._honker_stream_consumers WHERE topic = :topic

-- The offset below which all but the newest :keep events of the topic lie.
-- name: offset_to_keep
SELECT "offset" FROM brant._honker_stream WHERE topic = :topic ORDER BY "offset" DESC LIMIT 1 OFFSET :keep

-- name: notify
INSERT INTO brant._honker_notifications (id, channel, payload, created_at)
VALUES (brant._brant_next_notification(:channel, :micros), :channel, :payload, :second)
RETURNING id

-- name: read_notifications
SELECT id, channel, payload, created_at FROM brant._brant_read_notifications(:channel, :after, :limit)

-- name: last_notification
SELECT brant._brant_last_notification(:channel)

-- name: prune_notifications
DELETE FROM brant._honker_notifications
WHERE (CAST(:created_before AS double precision) IS NOT NULL AND created_at < CAST(:created_before AS double precision))
    OR (CAST(:keep AS bigint) IS NOT NULL AND id <= (
        SELECT id FROM brant._honker_notifications ORDER BY id DESC LIMIT 1 OFFSET CAST(:keep AS bigint)
    ))
