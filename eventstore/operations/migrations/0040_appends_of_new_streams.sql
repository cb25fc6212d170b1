-- rollable: yes
-- As the function of the same name. Where all payloads are those of streams that are new, their keys were new, so that
-- no other append can have one of them: none is looked for first, and they need no order.
CREATE OR REPLACE FUNCTION append_events(
    streams text[], versions integer[], topics text[], times timestamptz[], suppliers text[], causes text[],
    command_ids text[], code_version text, states bytea[],
    payload_streams text[], payload_digests bytea[], payload_times timestamptz[], payload_sizes integer[],
    payload_contents bytea[], payload_subjects text[], key_streams text[], keys bytea[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    base bigint;
    conflicts text;
BEGIN
    IF cardinality(key_streams) > 0 THEN
        INSERT INTO payload_keys (stream, key)
        SELECT * FROM unnest(key_streams, keys) AS new (s, k)
        ORDER BY s;  -- the same order everywhere, or two batches with the same streams deadlock
    END IF;

    IF cardinality(payload_streams) = cardinality(key_streams) THEN
        INSERT INTO payloads (stream, sha256, recorded_at, received_bytes, content, subject)
        SELECT * FROM unnest(payload_streams, payload_digests, payload_times, payload_sizes, payload_contents,
                             payload_subjects) AS new (s, d, t, z, c, u);
    ELSE
        INSERT INTO payloads (stream, sha256, recorded_at, received_bytes, content, subject)
        SELECT * FROM unnest(payload_streams, payload_digests, payload_times, payload_sizes, payload_contents,
                             payload_subjects) AS new (s, d, t, z, c, u)
        ORDER BY s, d
        ON CONFLICT DO NOTHING;
    END IF;

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
       OR (new.s = ANY (key_streams) AND (EXISTS (SELECT FROM payload_keys WHERE payload_keys.stream = new.s)
                                          OR EXISTS (SELECT FROM payloads WHERE payloads.stream = new.s)));
    RAISE EXCEPTION 'version conflict' USING ERRCODE = 'LG001', DETAIL = coalesce(conflicts, '');
END
$$;
