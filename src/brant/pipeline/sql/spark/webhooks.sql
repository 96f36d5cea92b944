SELECT
    rates.*,
    coalesce(ages.oldest_unhandled_s, 0) AS oldest_unhandled_s
FROM {rates} AS rates
LEFT JOIN (
    SELECT
        windows.tenant, windows.endpoint, windows.provider, windows.window_start,
        max(unix_seconds(windows.window_start) + :window - unix_micros(waiting.received_at) / 1e6) AS oldest_unhandled_s
    FROM {rates} AS windows
    JOIN {waiting} AS waiting
        ON waiting.tenant <=> windows.tenant
        AND waiting.endpoint <=> windows.endpoint
        AND waiting.provider <=> windows.provider
        AND unix_seconds(waiting.received_at) < unix_seconds(windows.window_start) + :window
        AND (
            waiting.rested_at IS NULL
            OR unix_seconds(waiting.rested_at) >= unix_seconds(windows.window_start) + :window
        )
    GROUP BY windows.tenant, windows.endpoint, windows.provider, windows.window_start
) AS ages
    ON ages.tenant <=> rates.tenant
    AND ages.endpoint <=> rates.endpoint
    AND ages.provider <=> rates.provider
    AND ages.window_start = rates.window_start
