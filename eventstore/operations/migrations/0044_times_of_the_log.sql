-- rollable: yes
-- The log gives each event its time while it holds the log's lock: never before that of the event before it, so that
-- times rise with positions, whatever clocks the writers have. `at` is that time, one for all events of the append.
CREATE FUNCTION log_time() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$SELECT clock_timestamp()$$;

DROP FUNCTION append_answered_events;
DROP FUNCTION append_events;

CREATE FUNCTION append_events(
    streams text[], versions integer[], topics text[], suppliers text[], causes text[],
    command_ids text[], code_version text, states bytea[],
    payload_streams text[], payload_digests bytea[], payload_sizes integer[],
    payload_contents bytea[], payload_subjects text[], key_streams text[], keys bytea[],
    OUT base bigint, OUT at timestamptz
) LANGUAGE plpgsql AS $$
DECLARE
    conflicts text;
BEGIN
    IF cardinality(key_streams) > 0 THEN
        INSERT INTO payload_keys (stream, key)
        SELECT * FROM unnest(key_streams, keys) AS new (s, k)
        ORDER BY s;  -- the same order everywhere, or two batches with the same streams deadlock
    END IF;

    -- Where all payloads are those of streams that are new, their keys were new, so that no other append can have one
    -- of them: none is looked for first, and they need no order.
    IF cardinality(payload_streams) = cardinality(key_streams) THEN
        INSERT INTO payloads (stream, sha256, recorded_at, received_bytes, content, subject)
        SELECT s, d, now(), z, c, u
        FROM unnest(payload_streams, payload_digests, payload_sizes, payload_contents, payload_subjects)
            AS new (s, d, z, c, u);
    ELSE
        INSERT INTO payloads (stream, sha256, recorded_at, received_bytes, content, subject)
        SELECT s, d, now(), z, c, u
        FROM unnest(payload_streams, payload_digests, payload_sizes, payload_contents, payload_subjects)
            AS new (s, d, z, c, u)
        ORDER BY s, d
        ON CONFLICT DO NOTHING;
    END IF;

    PERFORM pg_advisory_xact_lock(7015001);
    -- A statement of its own: in one with the lock, the snapshot would be older than the lock.
    SELECT events.position, events.recorded_at INTO base, at FROM events ORDER BY events.position DESC LIMIT 1;
    base := coalesce(base, 0);
    at := greatest(at, log_time());

    INSERT INTO events (position, stream, version, topic, recorded_at, supplier, caused_by, command_id,
                        code_version, state)
    SELECT base + n, s, v, t, append_events.at, u, c, i, append_events.code_version, b
    FROM unnest(streams, versions, topics, suppliers, causes, command_ids, states)
        WITH ORDINALITY AS new (s, v, t, u, c, i, b, n);
EXCEPTION WHEN unique_violation THEN
    SELECT string_agg(n::text, ',') INTO conflicts
    FROM unnest(streams, versions) WITH ORDINALITY AS new (s, v, n)
    WHERE EXISTS (SELECT FROM events WHERE events.stream = new.s AND events.version = new.v)
       OR (new.s = ANY (key_streams) AND (EXISTS (SELECT FROM payload_keys WHERE payload_keys.stream = new.s)
                                          OR EXISTS (SELECT FROM payloads WHERE payloads.stream = new.s)));
    RAISE EXCEPTION 'version conflict' USING ERRCODE = 'LG001', DETAIL = coalesce(conflicts, '');
END
$$;

-- As append_events, with answers: `answer_numbers` are the numbers (from 1) of the events that they speak of.
-- An answer that is there already is a conflict of its event. Answers come before payloads and log, everywhere.
CREATE FUNCTION append_answered_events(
    streams text[], versions integer[], topics text[], suppliers text[], causes text[],
    command_ids text[], code_version text, states bytea[],
    payload_streams text[], payload_digests bytea[], payload_sizes integer[],
    payload_contents bytea[], payload_subjects text[], key_streams text[], keys bytea[],
    answer_ids text[], answer_numbers integer[], answer_digests bytea[], answer_statuses integer[],
    answer_bodies bytea[],
    OUT base bigint, OUT at timestamptz
) LANGUAGE plpgsql AS $$
DECLARE
    conflicts text;
BEGIN
    INSERT INTO remembered_answers (command_id, request_sha256, status, body)
    SELECT i, d, s, b
    FROM unnest(answer_ids, answer_digests, answer_statuses, answer_bodies) AS new (i, d, s, b)
    ORDER BY i;

    SELECT * INTO base, at
    FROM append_events(streams, versions, topics, suppliers, causes, command_ids, code_version, states,
                       payload_streams, payload_digests, payload_sizes, payload_contents, payload_subjects,
                       key_streams, keys);
EXCEPTION WHEN unique_violation THEN
    SELECT string_agg(n::text, ',') INTO conflicts
    FROM unnest(answer_ids, answer_numbers) AS new (i, n)
    JOIN remembered_answers ON remembered_answers.command_id = new.i;
    RAISE EXCEPTION 'version conflict' USING ERRCODE = 'LG001', DETAIL = coalesce(conflicts, '');
END
$$;
