-- How far the lowest cursor that an open transaction has announced is behind the last one that was given. See the
-- schema of Brant's streams for the numbers. A lock of somebody else's is told by its owner: whoever numbers rows of
-- this table is writing to it.
WITH held AS MATERIALIZED (
    SELECT * FROM pg_locks WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
SELECT max(behind)
FROM (
    SELECT
        (:given + 1 - (((CAST(classid AS bigint) & 1023) << 32) | CAST(objid AS bigint))) & 4398046511103 AS behind
    FROM held
    WHERE locktype = 'advisory' AND objsubid = 1 AND mode = 'ShareLock' AND CAST(classid AS bigint) >> 10 > 0
        AND virtualtransaction IN (
            SELECT virtualtransaction FROM held
            WHERE locktype = 'relation' AND mode = 'RowExclusiveLock'
                AND relation = CAST(CAST('brant._honker_notifications' AS regclass) AS oid)
        )
) AS announced
WHERE behind < least(2199023255552, CAST(:given AS bigint) + 1)
