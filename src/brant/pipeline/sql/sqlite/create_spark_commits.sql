CREATE TABLE IF NOT EXISTS _brant_spark_commits (
    app TEXT PRIMARY KEY,
    batch INTEGER NOT NULL,
    plan TEXT NOT NULL,
    rows INTEGER NOT NULL,
    committed_at REAL NOT NULL
) WITHOUT ROWID
