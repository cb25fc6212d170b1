-- rollable: yes
-- What cannot be read concerns its own row alone: whoever reads the log in SQL sees what is stored there.
CREATE FUNCTION readable_event(state bytea) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN convert_from(state, 'UTF8')::jsonb;
EXCEPTION WHEN OTHERS THEN
    RETURN jsonb_build_object('unreadable', encode(state, 'escape'));
END
$$;

CREATE OR REPLACE VIEW readable_events AS
SELECT position, stream, version, topic, recorded_at, supplier, caused_by, command_id, code_version,
       readable_event(state) AS event
FROM events;

-- Python has years from 1 to 9999. One row beyond them would make every batch that it is in unreadable.
ALTER TABLE events ADD CONSTRAINT events_recorded_at_is_readable
    CHECK (recorded_at > '0002-01-01Z' AND recorded_at < '9998-01-01Z') NOT VALID;

-- Work of the service's processes that fails at present. Rows that are not repeated for a while count for nothing.
CREATE TABLE troubles (
    process    text        NOT NULL,
    name       text        NOT NULL,
    error      text        NOT NULL,
    since      timestamptz NOT NULL DEFAULT clock_timestamp(),
    times      integer     NOT NULL,
    is_waiting boolean     NOT NULL,
    seen_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (process, name)
);
