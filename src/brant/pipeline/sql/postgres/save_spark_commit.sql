INSERT INTO brant._brant_spark_commits (app, batch, plan, rows, committed_at)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (app) DO UPDATE SET
    batch = excluded.batch, plan = excluded.plan, rows = excluded.rows, committed_at = excluded.committed_at
