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
