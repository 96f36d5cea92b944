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
