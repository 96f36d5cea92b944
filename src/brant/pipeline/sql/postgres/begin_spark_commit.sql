INSERT INTO brant._brant_spark_commits (app, batch, plan, rows, committed_at)
VALUES (?, -1, '', 0, 0)
ON CONFLICT (app) DO NOTHING
