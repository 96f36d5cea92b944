-- name: topics
SELECT
    timestamp_seconds(unix_seconds(created_at) DIV :window * :window) AS window_start,
    tenant,
    topic,
    count(*) AS events,
    coalesce(sum(octet_length(payload)), 0) AS bytes,
    count(DISTINCT key) AS keys,
    date
FROM {events}
GROUP BY window_start, tenant, topic, date
