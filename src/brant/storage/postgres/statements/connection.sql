-- What a connection of Brant's own is set to. Brant's own statements need no search_path; those of the user's find their
-- own tables first, and then Brant's. A commit waits for the disk, or does not, as the server has it, unless it was said.
-- name: set_up_connection
SELECT
    set_config('statement_timeout', :statement_timeout, false),
    set_config('lock_timeout', :lock_timeout, false),
    set_config('idle_in_transaction_session_timeout', :idle_timeout, false),
    set_config('default_transaction_read_only', :read_only, false),
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('client_min_messages', 'error', false),
    set_config('synchronous_commit', CASE
        WHEN :synchronous = 'OFF' THEN 'off'
        WHEN :synchronous <> 'NORMAL' AND current_setting('synchronous_commit') = 'off' THEN 'on'
        ELSE current_setting('synchronous_commit')
    END, false),
    set_config(
        'search_path', concat_ws(', ', nullif(current_setting('search_path'), ''), quote_ident(:schema)), false
    )

-- name: give_time
SELECT set_config('statement_timeout', :statement_timeout, true)

-- For SQL functions, where a test has set the time.
-- name: tell_time
SELECT set_config('brant_clock.now', :now, false)

-- name: server_time
SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision)

-- name: begin
BEGIN

-- name: begin_snapshot
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY

-- name: commit
COMMIT

-- name: rollback
ROLLBACK

-- name: open_savepoint
SAVEPOINT brant

-- name: release_savepoint
RELEASE SAVEPOINT brant

-- name: undo_savepoint
ROLLBACK TO SAVEPOINT brant

-- Those who wait in other processes learn of it at the commit.
-- name: ring
SELECT pg_notify(:channel, :origin)

-- Differs from one that was read before if anybody has committed a change in between.
-- name: change_mark
SELECT CAST(pg_current_snapshot() AS text)

-- Of two connections that give the same answer, both are on the same database.
-- name: which_database
SELECT system_identifier, (SELECT oid FROM pg_database WHERE datname = current_database()) FROM pg_control_system()
