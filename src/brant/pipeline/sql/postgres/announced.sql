-- How far the lowest cursor that an open transaction has announced is behind the last one that was given: see the
-- schema of Brant's streams for the numbers. A lock of somebody else's is told by its owner: whoever numbers rows of
-- a table is writing to it.
-- fragment: held
held AS MATERIALIZED (
    SELECT * FROM pg_locks WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database())
)

-- fragment: announced
SELECT
    virtualtransaction,
    (:given + 1 - (((CAST(classid AS bigint) & 1023) << 32) | CAST(objid AS bigint))) & 4398046511103 AS behind
FROM held
WHERE locktype = 'advisory' AND objsubid = 1 AND mode = 'ShareLock' AND CAST(classid AS bigint) >> 10 > 0

-- fragment: lowest_announced
SELECT max(behind) FROM ({{announced}}) AS announced
WHERE behind < least(2199023255552, CAST(:given AS bigint) + 1) AND virtualtransaction IN (
    SELECT virtualtransaction FROM held
    WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND relation = written.id
)

-- name: stream_announced
WITH {{held}}, written (id) AS (SELECT CAST(CAST('brant._honker_stream' AS regclass) AS oid))
SELECT ({{lowest_announced}}) FROM written

-- name: notifications_announced
WITH {{held}}, written (id) AS (SELECT CAST(CAST('brant._honker_notifications' AS regclass) AS oid))
SELECT ({{lowest_announced}}) FROM written
