-- name: publish
INSERT INTO _honker_stream (topic, key, payload, created_at) VALUES (:topic, :key, :payload, :second)
RETURNING offset

-- name: publish_many
INSERT INTO _honker_stream (topic, key, payload, created_at)
SELECT :topic, json_extract(value, '$[0]'), json_extract(value, '$[1]'), :second FROM json_each(:events)
RETURNING offset

-- name: read_stream
SELECT offset, topic, key, payload, created_at FROM _honker_stream
WHERE topic = :topic AND offset > :after ORDER BY offset LIMIT :limit

-- name: stream_head
SELECT coalesce(max(offset), 0) FROM _honker_stream WHERE topic = :topic

-- name: save_offset
INSERT INTO _honker_stream_consumers (name, topic, offset) VALUES (:consumer, :topic, :offset)
ON CONFLICT (name, topic) DO UPDATE SET offset = excluded.offset WHERE excluded.offset > offset

-- name: get_offset
SELECT offset FROM _honker_stream_consumers WHERE name = :consumer AND topic = :topic

-- name: list_consumers
SELECT name, offset,
    (SELECT count(*) FROM _honker_stream WHERE topic = :topic AND offset > consumer.offset)
FROM _honker_stream_consumers AS consumer WHERE topic = :topic ORDER BY name

-- name: forget_consumer
DELETE FROM _honker_stream_consumers WHERE name = :consumer AND topic = :topic

-- name: topics
WITH RECURSIVE seen (topic) AS (
    SELECT min(topic) FROM _honker_stream
    UNION ALL
    SELECT (SELECT min(topic) FROM _honker_stream WHERE topic > seen.topic) FROM seen WHERE seen.topic IS NOT NULL
)
SELECT topic FROM seen WHERE topic IS NOT NULL

-- name: prune_stream
DELETE FROM _honker_stream
WHERE topic = :topic AND offset <= :up_to AND (:created_before IS NULL OR created_at < :created_before)

-- name: slowest_offset
SELECT min(offset) FROM _honker_stream_consumers WHERE topic = :topic

-- The offset below which all but the newest :keep events of the topic lie.
-- name: offset_to_keep
SELECT offset FROM _honker_stream WHERE topic = :topic ORDER BY offset DESC LIMIT 1 OFFSET :keep

-- name: notify
INSERT INTO _honker_notifications (id, channel, payload, created_at)
VALUES (
    max(:micros, (SELECT coalesce(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = '_honker_notifications')),
    :channel, :payload, :second
)
RETURNING id

-- name: read_notifications
SELECT id, channel, payload, created_at FROM _honker_notifications
WHERE channel = :channel AND id > :after ORDER BY id LIMIT :limit

-- name: last_notification
SELECT coalesce(max(id), 0) FROM _honker_notifications WHERE channel = :channel

-- name: prune_notifications
DELETE FROM _honker_notifications
WHERE (:created_before IS NOT NULL AND created_at < :created_before)
    OR (:keep IS NOT NULL
        AND id <= (SELECT id FROM _honker_notifications ORDER BY id DESC LIMIT 1 OFFSET :keep))
