-- Most events come to rest within the window in which they came: they are nobody's oldest.
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
