-- rollable: yes
-- Payloads are encrypted, a key per import process; erasing a person is throwing the key and the payloads away.

CREATE TABLE payload_keys (
    stream    text        NOT NULL PRIMARY KEY,
    key       bytea,
    erased_at timestamptz,
    CHECK ((key IS NULL) = (erased_at IS NOT NULL))
);

COMMENT ON TABLE payload_keys IS 'By import stream: what its payloads, and those of what was attached to its account, are encrypted with. '
    'A row without key says that the person was erased.';

ALTER TABLE payloads ADD COLUMN subject text;

COMMENT ON COLUMN payloads.subject IS 'The import stream whose key this is encrypted with; none for the stream''s own.';

-- As the functions of the same names, with keys of streams that are new. A stream that has a key already is not new:
-- that is a conflict of its event.
CREATE FUNCTION append_events(
    streams text[], versions integer[], topics text[], times timestamptz[], suppliers text[], causes text[],
    command_ids text[], code_version text, states bytea[],
    payload_streams text[], payload_digests bytea[], payload_times timestamptz[], payload_sizes integer[],
    payload_contents bytea[], payload_subjects text[], key_streams text[], keys bytea[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    base bigint;
    conflicts text;
BEGIN
    INSERT INTO payload_keys (stream, key)
    SELECT * FROM unnest(key_streams, keys) AS new (s, k)
    ORDER BY s;

    INSERT INTO payloads (stream, sha256, recorded_at, received_bytes, content, subject)
    SELECT * FROM unnest(payload_streams, payload_digests, payload_times, payload_sizes, payload_contents,
                         payload_subjects) AS new (s, d, t, z, c, u)
    ORDER BY s, d  -- the same order everywhere, or two batches with the same payloads deadlock
    ON CONFLICT DO NOTHING;

    PERFORM pg_advisory_xact_lock(7015001);
    SELECT coalesce(max(events.position), 0) INTO base FROM events;

    INSERT INTO events (position, stream, version, topic, recorded_at, supplier, caused_by, command_id,
                        code_version, state)
    SELECT base + n, s, v, t, r, u, c, i, append_events.code_version, b
    FROM unnest(streams, versions, topics, times, suppliers, causes, command_ids, states)
        WITH ORDINALITY AS new (s, v, t, r, u, c, i, b, n);
    RETURN base;
EXCEPTION WHEN unique_violation THEN
    SELECT string_agg(n::text, ',') INTO conflicts
    FROM unnest(streams, versions) WITH ORDINALITY AS new (s, v, n)
    WHERE EXISTS (SELECT FROM events WHERE events.stream = new.s AND events.version = new.v)
       OR (new.s = ANY (key_streams) AND EXISTS (SELECT FROM payload_keys WHERE payload_keys.stream = new.s));
    RAISE EXCEPTION 'version conflict' USING ERRCODE = 'LG001', DETAIL = coalesce(conflicts, '');
END
$$;

CREATE FUNCTION append_answered_events(
    streams text[], versions integer[], topics text[], times timestamptz[], suppliers text[], causes text[],
    command_ids text[], code_version text, states bytea[],
    payload_streams text[], payload_digests bytea[], payload_times timestamptz[], payload_sizes integer[],
    payload_contents bytea[], payload_subjects text[], key_streams text[], keys bytea[],
    answer_ids text[], answer_numbers integer[], answer_digests bytea[], answer_statuses integer[],
    answer_bodies bytea[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    conflicts text;
BEGIN
    INSERT INTO remembered_answers (command_id, request_sha256, status, body)
    SELECT i, d, s, b
    FROM unnest(answer_ids, answer_digests, answer_statuses, answer_bodies) AS new (i, d, s, b)
    ORDER BY i;

    RETURN append_events(streams, versions, topics, times, suppliers, causes, command_ids, code_version, states,
                         payload_streams, payload_digests, payload_times, payload_sizes, payload_contents,
                         payload_subjects, key_streams, keys);
EXCEPTION WHEN unique_violation THEN
    SELECT string_agg(n::text, ',') INTO conflicts
    FROM unnest(answer_ids, answer_numbers) AS new (i, n)
    JOIN remembered_answers ON remembered_answers.command_id = new.i;
    RAISE EXCEPTION 'version conflict' USING ERRCODE = 'LG001', DETAIL = coalesce(conflicts, '');
END
$$;
