SELECT
    timestamp_seconds(unix_seconds(at) DIV :window * :window) AS window_start,
    date, tenant, queue, task, job_id, event, error, at,
    CASE WHEN event = 'claimed' AND before IN ('enqueued', 'retried')
        THEN greatest(unix_micros(at) - unix_micros(before_due_at), 0) / 1e6 END AS wait_s,
    CASE WHEN event IN ('completed', 'retried', 'dead') AND before = 'claimed'
        THEN greatest(unix_micros(at) - unix_micros(before_at), 0) / 1e6 END AS run_s,
    event IN ('retried', 'dead') AND before = 'claimed' AS is_failed_attempt
FROM {lifecycle}
WHERE date IN (SELECT date FROM {dates})
