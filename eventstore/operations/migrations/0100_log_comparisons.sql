-- rollable: yes
-- Nothing is appended before this log was compared with its checkpoints since the server has started. A copy of the
-- database has other files or another start: it must be compared itself.

CREATE TABLE log_comparisons (
    started_at   timestamptz NOT NULL DEFAULT pg_postmaster_start_time(),
    file         text        NOT NULL DEFAULT pg_relation_filepath('events'),
    compared_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    accepted_by  text,
    accepted_for text,
    PRIMARY KEY (started_at, file)
);

COMMENT ON TABLE log_comparisons IS 'First comparisons of the log with its checkpoints, one for each start of a server.';
COMMENT ON COLUMN log_comparisons.file IS 'File of the events: a database or a table that was copied has another one.';
COMMENT ON COLUMN log_comparisons.accepted_for IS 'Reason of an operator who lets the intake continue without a comparison.';

-- The log of a new database is empty, and that of a running service was compared by its relay.
INSERT INTO log_comparisons DEFAULT VALUES;

CREATE FUNCTION is_log_compared() RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM log_comparisons
        WHERE started_at = pg_postmaster_start_time() AND file = pg_relation_filepath('events')
    );
END
$$;

CREATE OR REPLACE FUNCTION refuse_while_stopped() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM intake_stops WHERE ended_at IS NULL) THEN
        RAISE EXCEPTION 'intake is stopped' USING ERRCODE = 'LG002';
    END IF;
    IF NOT is_log_compared() AND current_setting('importledger.is_restoring', true) IS DISTINCT FROM 'on' THEN
        RAISE EXCEPTION 'the log is not compared with its checkpoints yet' USING ERRCODE = 'LG003';
    END IF;
    RETURN NULL;
END
$$;
