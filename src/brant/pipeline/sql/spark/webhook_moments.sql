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
    -- Once for an event, however often it is replayed; of one that is older than what was looked at, nobody knows.
    CASE WHEN outcome = 'handled' AND time_of_outcome = 1 AND received_at >= :since
        THEN greatest(unix_micros(attempted_at) - unix_micros(received_at), 0) / 1e6 END
FROM (
    SELECT *, row_number() OVER (PARTITION BY tenant, event_id, outcome ORDER BY id) AS time_of_outcome
    FROM {attempts}
)
WHERE date IN (SELECT date FROM {dates})
