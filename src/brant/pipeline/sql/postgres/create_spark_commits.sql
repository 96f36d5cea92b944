CREATE TABLE IF NOT EXISTS brant._brant_spark_commits (
    app text COLLATE "C" PRIMARY KEY,
    batch bigint NOT NULL,
    plan text NOT NULL,
    rows bigint NOT NULL,
    committed_at double precision NOT NULL
)
