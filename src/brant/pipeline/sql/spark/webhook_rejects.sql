SELECT
    timestamp_seconds(unix_seconds(hour) DIV :window * :window) AS window_start,
    tenant,
    endpoint,
    provider,
    status,
    reason,
    sum(count) AS rejects,
    max(last_at) AS last_seen,
    date
FROM {rejects}
GROUP BY window_start, tenant, endpoint, provider, status, reason, date
