-- name: schema_version
SELECT value FROM brant._brant_meta WHERE key = 'schema_version'

-- name: set_schema_version
INSERT INTO brant._brant_meta (key, value) VALUES ('schema_version', :version)
ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- Tables of earlier systems were in files only.
-- name: old_layout
SELECT CAST(NULL AS text) WHERE false

-- Of those who make the tables at once, one does, and the others then find them made.
-- name: lock_schema
SELECT pg_advisory_xact_lock(1651663216, hashtext(:schema))

-- name: schema_exists
SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = :schema)

-- name: has_tables
SELECT to_regclass('brant._honker_live') IS NOT NULL

-- fragment: is_own
(relname LIKE '\_honker\_%' OR relname LIKE '\_brant\_%' OR relname LIKE 'knocker\_%')

-- fragment: in_schema
relnamespace = to_regnamespace(quote_ident(:schema))

-- name: foreign_tables
SELECT relname FROM pg_class WHERE {{in_schema}} AND relkind IN ('r', 'p', 'm') AND NOT {{is_own}}

-- The statement that drops all there is.
-- name: drop
SELECT format('DROP SCHEMA %I CASCADE', CAST(:schema AS text))

-- The statements that drop Brant's own only.
-- name: drops
SELECT statement FROM (
    SELECT 1 AS step, format('DROP TABLE IF EXISTS %I.%I CASCADE', CAST(:schema AS text), relname) AS statement
    FROM pg_class WHERE {{in_schema}} AND relkind = 'r' AND {{is_own}}
    UNION ALL
    SELECT 2, format('DROP SEQUENCE IF EXISTS %I.%I CASCADE', CAST(:schema AS text), relname)
    FROM pg_class WHERE {{in_schema}} AND relkind = 'S' AND {{is_own}}
    UNION ALL
    SELECT 3, format('DROP FUNCTION IF EXISTS %s CASCADE', CAST(CAST(oid AS regprocedure) AS text))
    FROM pg_proc
    WHERE pronamespace = to_regnamespace(quote_ident(:schema))
        AND (proname LIKE '\_brant\_%' OR proname LIKE 'honker\_%' OR proname LIKE '\_honker\_%' OR proname = 'notify')
    UNION ALL
    SELECT 4, format('DROP TYPE IF EXISTS %I.%I CASCADE', CAST(:schema AS text), relname)
    FROM pg_class WHERE {{in_schema}} AND relkind = 'c' AND {{is_own}}
) AS steps ORDER BY step
