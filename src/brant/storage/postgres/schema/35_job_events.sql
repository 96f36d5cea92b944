-- The name of the task that a payload calls, if it is such a call.
CREATE OR REPLACE FUNCTION brant._brant_task_of(payload text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF strpos(payload, '__honker_task__') = 0 THEN
        RETURN NULL;
    END IF;
    RETURN CAST(payload AS json) -> '__honker_task__' ->> 'task';
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END
$$;

-- Publishes what has become of a job, in its transaction, if its queue has events; `facts` is more JSON of the same
-- object, which begins with a comma.
CREATE OR REPLACE FUNCTION brant._brant_emit(
    event text, in_queue text, job_id bigint, attempt bigint, at double precision, facts text
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM brant._brant_queues WHERE name = in_queue AND events = 1) THEN
        INSERT INTO brant._honker_stream (topic, key, payload, created_at) VALUES (
            '_brant:jobs', in_queue,
            format(
                '{"event": "%s", "queue": %s, "job_id": %s, "attempt": %s, "at": %s%s}',
                event, to_json(in_queue), job_id, attempt, to_json(at), facts
            ),
            floor(at)
        );
    END IF;
END
$$;
