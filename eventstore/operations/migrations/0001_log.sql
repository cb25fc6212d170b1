-- rollable: yes
-- The log: one table that can only be inserted into, and the importers' payloads beside it.

CREATE TABLE events (
    position     bigint      NOT NULL PRIMARY KEY,
    stream       text        NOT NULL,
    version      integer     NOT NULL CHECK (version > 0),
    topic        text        NOT NULL,
    recorded_at  timestamptz NOT NULL,
    supplier     text,
    caused_by    text        NOT NULL,
    command_id   text,
    code_version text        NOT NULL,
    state        bytea       NOT NULL,
    CONSTRAINT events_stream_version UNIQUE (stream, version)
);

COMMENT ON COLUMN events.position IS 'Place in the whole log: dense, in commit order.';
COMMENT ON COLUMN events.version IS 'Place in the stream, from 1, without gaps.';
COMMENT ON COLUMN events.state IS 'The event as JSON; no personal data.';

CREATE TABLE payloads (
    stream          text        NOT NULL,
    sha256          bytea       NOT NULL,
    recorded_at     timestamptz NOT NULL,
    received_bytes  integer     NOT NULL,
    content         bytea       NOT NULL,
    PRIMARY KEY (stream, sha256)
);

-- The content is compressed already: no second compression by the server.
ALTER TABLE payloads ALTER COLUMN content SET STORAGE EXTERNAL;

COMMENT ON TABLE payloads IS 'Request bodies as received, zstd-compressed; the one thing that may be erased.';

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the log is append-only: % on % is refused', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER events_are_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- One batch into the log. Takes the log's lock, numbers the events densely in commit order, and returns the
-- position before the first. A stream that somebody else has appended to raises LG001 with the numbers of the
-- conflicting events; nothing of the batch is stored then.
-- Lock and max(position) are two statements, so that the second sees what the last holder of the lock committed.
CREATE FUNCTION append_events(
    streams text[], versions integer[], topics text[], times timestamptz[], suppliers text[], causes text[],
    command_ids text[], code_version text, states bytea[],
    payload_streams text[], payload_digests bytea[], payload_times timestamptz[], payload_sizes integer[],
    payload_contents bytea[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    base bigint;
    conflicts text;
BEGIN
    INSERT INTO payloads (stream, sha256, recorded_at, received_bytes, content)
    SELECT * FROM unnest(payload_streams, payload_digests, payload_times, payload_sizes, payload_contents)
        AS new (s, d, t, z, c)
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
    JOIN events ON events.stream = new.s AND events.version = new.v;
    RAISE EXCEPTION 'version conflict' USING ERRCODE = 'LG001', DETAIL = coalesce(conflicts, '');
END
$$;

CREATE TABLE checkpoints (
    follower   text        NOT NULL PRIMARY KEY,
    position   bigint      NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

COMMENT ON TABLE checkpoints IS 'How far each follower of the log has come.';

CREATE VIEW stored_events AS
SELECT stream AS originator_id, version AS originator_version, position AS notification_id, topic, state
FROM events;

COMMENT ON VIEW stored_events IS 'The log under the column names of the eventsourcing library, for its reads.';

CREATE VIEW readable_events AS
SELECT position, stream, version, topic, recorded_at, supplier, caused_by, command_id, code_version,
       convert_from(state, 'UTF8')::jsonb AS event
FROM events;

COMMENT ON VIEW readable_events IS 'The log for people who read SQL.';
