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
        -- Most jobs are claimed within the window in which they fall due: they are nobody's oldest.
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
