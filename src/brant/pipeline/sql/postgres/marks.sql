-- name: begin_spark_commit
INSERT INTO brant._brant_spark_commits (app, batch, plan, rows, committed_at)
VALUES (?, -1, '', 0, 0)
ON CONFLICT (app) DO NOTHING

-- name: create_spark_commits
CREATE TABLE IF NOT EXISTS brant._brant_spark_commits (
    app text COLLATE "C" PRIMARY KEY,
    batch bigint NOT NULL,
    plan text NOT NULL,
    rows bigint NOT NULL,
    committed_at double precision NOT NULL
)

-- name: find_spark_commit
SELECT batch, plan FROM brant._brant_spark_commits WHERE app = ? AND batch >= 0 FOR UPDATE

-- name: has_spark_commits
SELECT to_regclass('brant._brant_spark_commits') IS NOT NULL AS found

-- name: lock_spark_commits
SELECT count(pg_advisory_xact_lock(hashtextextended('_brant_spark_commits', CAST(oid AS bigint)))) AS locked
FROM pg_class WHERE oid = CAST('brant._brant_meta' AS regclass)

-- name: look_at_spark_commit
SELECT batch, plan FROM brant._brant_spark_commits WHERE app = ?

-- name: save_spark_commit
INSERT INTO brant._brant_spark_commits (app, batch, plan, rows, committed_at)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (app) DO UPDATE SET
    batch = excluded.batch, plan = excluded.plan, rows = excluded.rows, committed_at = excluded.committed_at

-- name: survive_a_power_cut
SELECT CASE current_setting('synchronous_commit')
    WHEN 'off' THEN set_config('synchronous_commit', 'on', true)
    ELSE current_setting('synchronous_commit')
END AS synchronous_commit
