-- name: attempts
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

-- name: dead_letters
SELECT
    tenant,
    queue,
    error_class,
    count(*) AS dead,
    min(at) AS first_seen,
    max(at) AS last_seen,
    min_by(first_line, at) AS sample_error,
    slice(array_sort(collect_set(job_id)), 1, 5) AS sample_job_ids,
    date
FROM (
    SELECT
        tenant, queue, job_id, at, date, first_line,
        regexp_replace(
            regexp_replace(
                regexp_replace(first_line, :uuid, '<id>'),
                :hexadecimal, '<id>'
            ),
            '[0-9]+', '#'
        ) AS error_class
    FROM (
        SELECT *, left(substring_index(trim(coalesce(error, '')), '\n', 1), 500) AS first_line
        FROM {attempts}
        WHERE event = 'dead'
    )
)
GROUP BY tenant, queue, error_class, date

-- name: lifecycle
SELECT
    tenant, job_id, event, queue, error, at, date,
    last_value(task) IGNORE NULLS OVER job_so_far AS task,
    lead(at) OVER job AS next_at,
    lag(event) OVER job AS before,
    lag(at) OVER job AS before_at,
    lag(due_at) OVER job AS before_due_at,
    due_at
FROM (
    SELECT
        tenant, offset, date, told.event, told.queue, told.job_id, told.error, told.task,
        coalesce(timestamp_micros(try_cast(told.at * 1e6 AS BIGINT)), created_at) AS at,
        coalesce(
            timestamp_micros(try_cast(told.run_at * 1e6 AS BIGINT)),
            timestamp_micros(try_cast(told.at * 1e6 AS BIGINT)),
            created_at
        ) AS due_at
    FROM (
        SELECT
            tenant, offset, created_at, date,
            from_json(
                payload,
                'event STRING, queue STRING, job_id BIGINT, at DOUBLE, run_at DOUBLE, error STRING, task STRING'
            ) AS told
        FROM {events}
    )
    WHERE told.event IS NOT NULL AND told.queue IS NOT NULL AND told.job_id IS NOT NULL
)
WINDOW
    job AS (PARTITION BY tenant, job_id ORDER BY offset),
    job_so_far AS (PARTITION BY tenant, job_id ORDER BY offset ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)

-- Most jobs are claimed within the window in which they fall due: they are nobody's oldest.
-- name: queues
SELECT
    rates.*,
    coalesce(ages.oldest_age_s, 0) AS oldest_age_s
FROM {rates} AS rates
LEFT JOIN (
    SELECT
        windows.tenant, windows.queue, windows.window_start,
        max(unix_seconds(windows.window_start) + :window - unix_micros(waiting.due_at) / 1e6) AS oldest_age_s
    FROM {rates} AS windows
    JOIN (
        SELECT tenant, queue, due_at, next_at
        FROM {lifecycle}
        WHERE event IN ('enqueued', 'retried')
            AND (next_at IS NULL OR unix_seconds(due_at) DIV :window < unix_seconds(next_at) DIV :window)
    ) AS waiting
        ON waiting.tenant <=> windows.tenant
        AND waiting.queue = windows.queue
        AND unix_seconds(waiting.due_at) < unix_seconds(windows.window_start) + :window
        AND (
            waiting.next_at IS NULL
            OR unix_seconds(waiting.next_at) >= unix_seconds(windows.window_start) + :window
        )
    GROUP BY windows.tenant, windows.queue, windows.window_start
) AS ages
    ON ages.tenant <=> rates.tenant AND ages.queue = rates.queue AND ages.window_start = rates.window_start

-- name: rates
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
