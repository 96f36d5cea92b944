SELECT
    window_start,
    tenant,
    queue,
    task,
    count_if(event = 'enqueued') AS enqueued,
    count_if(event = 'claimed') AS claimed,
    count_if(event = 'completed') AS completed,
    count_if(is_failed_attempt) AS failed_attempts,
    count_if(event = 'retried') AS retries,
    count_if(event = 'dead') AS dead,
    count_if(event = 'cancelled') AS cancelled,
    try_divide(
        count_if(event = 'completed'), count_if(event = 'completed') + count_if(event = 'dead')
    ) AS success_rate,
    percentile(wait_s, 0.5) AS wait_p50_s,
    percentile(wait_s, 0.95) AS wait_p95_s,
    percentile(wait_s, 0.99) AS wait_p99_s,
    percentile(run_s, 0.5) AS run_p50_s,
    percentile(run_s, 0.95) AS run_p95_s,
    percentile(run_s, 0.99) AS run_p99_s,
    date
FROM {attempts}
GROUP BY window_start, tenant, queue, task, date
