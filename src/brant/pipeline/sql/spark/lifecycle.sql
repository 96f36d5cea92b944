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
