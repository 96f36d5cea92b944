SELECT job_id, value, created_at, expires_at FROM _honker_results WHERE :names IS NULL ORDER BY job_id
