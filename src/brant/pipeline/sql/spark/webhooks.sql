-- Once for an event, however often it is replayed; of one that is older than what was looked at, nobody knows.
-- name: webhook_moments
SELECT
    timestamp_seconds(unix_seconds(received_at) DIV :window * :window) AS window_start,
    date, tenant, endpoint, provider,
    CASE signature_valid WHEN 0 THEN 'invalid' WHEN 1 THEN 'verified' ELSE 'unverified' END AS signature,
    duplicate = 1 AS is_duplicate,
    CAST(NULL AS STRING) AS outcome,
    CAST(NULL AS DOUBLE) AS handled_s
FROM {deliveries}
WHERE date IN (SELECT date FROM {dates})
UNION ALL
SELECT
    timestamp_seconds(unix_seconds(attempted_at) DIV :window * :window) AS window_start,
    date, tenant, endpoint, provider,
    CAST(NULL AS STRING),
    CAST(NULL AS BOOLEAN),
    outcome,
    CASE WHEN outcome = 'handled' AND time_of_outcome = 1 AND received_at >= :since
        THEN greatest(unix_micros(attempted_at) - unix_micros(received_at), 0) / 1e6 END
FROM (
    SELECT *, row_number() OVER (PARTITION BY tenant, event_id, outcome ORDER BY id) AS time_of_outcome
    FROM {attempts}
)
WHERE date IN (SELECT date FROM {dates})

-- name: webhook_rates
SELECT
    window_start,
    tenant,
    endpoint,
    provider,
    count(signature) AS received,
    count_if(signature = 'verified') AS verified,
    count_if(signature = 'unverified') AS unverified,
    count_if(signature = 'invalid') AS invalid,
    count_if(is_duplicate) AS duplicates,
    count_if(outcome = 'handled') AS handled,
    count_if(outcome IN ('failed', 'dead')) AS failed,
    count_if(outcome = 'failed') AS retries,
    count_if(outcome = 'dead') AS dead,
    count_if(outcome = 'ignored') AS ignored,
    try_divide(
        count_if(outcome = 'handled'), count_if(outcome = 'handled') + count_if(outcome = 'dead')
    ) AS success_rate,
    percentile(handled_s, 0.5) AS handled_p50_s,
    percentile(handled_s, 0.95) AS handled_p95_s,
    percentile(handled_s, 0.99) AS handled_p99_s,
    date
FROM {moments}
GROUP BY window_start, tenant, endpoint, provider, date

-- name: webhook_rejects
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

-- Most events come to rest within the window in which they came: they are nobody's oldest.
-- name: webhook_waiting
SELECT came.tenant, came.endpoint, came.provider, came.received_at, rested.rested_at
FROM (
    SELECT tenant, endpoint, provider, event_id, received_at
    FROM {deliveries}
    WHERE event_id IS NOT NULL AND duplicate = 0
) AS came
LEFT JOIN (
    SELECT tenant, event_id, min(attempted_at) AS rested_at
    FROM {attempts}
    WHERE outcome IN ('handled', 'dead', 'ignored')
    GROUP BY tenant, event_id
) AS rested
    ON rested.tenant <=> came.tenant AND rested.event_id = came.event_id
WHERE rested.rested_at IS NULL
    OR unix_seconds(came.received_at) DIV :window < unix_seconds(rested.rested_at) DIV :window

-- name: webhooks
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
