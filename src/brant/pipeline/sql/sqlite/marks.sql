-- name: create_spark_commits
CREATE TABLE IF NOT EXISTS _brant_spark_commits (
    app TEXT PRIMARY KEY,
    batch INTEGER NOT NULL,
    plan TEXT NOT NULL,
    rows INTEGER NOT NULL,
    committed_at REAL NOT NULL
) WITHOUT ROWID

-- name: find_spark_commit
SELECT batch, plan FROM _brant_spark_commits WHERE app = ?

-- name: look_at_spark_commit
SELECT batch, plan FROM _brant_spark_commits WHERE app = ?

-- name: save_spark_commit
INSERT INTO _brant_spark_commits (app, batch, plan, rows, committed_at)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (app) DO UPDATE SET
    batch = excluded.batch, plan = excluded.plan, rows = excluded.rows, committed_at = excluded.committed_at
