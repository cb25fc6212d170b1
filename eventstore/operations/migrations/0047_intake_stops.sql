-- rollable: yes
-- A log that does not continue what was signed takes nothing in until an operator has decided.

CREATE TABLE intake_stops (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stopped_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    size       bigint      NOT NULL,
    note       text        NOT NULL,
    reason     text        NOT NULL,
    ended_at   timestamptz,
    ended_by   text,
    ended_for  text
);

CREATE UNIQUE INDEX intake_stops_in_force ON intake_stops ((ended_at IS NULL)) WHERE ended_at IS NULL;

COMMENT ON TABLE intake_stops IS 'Times in which nothing is appended, since the log does not continue a signed checkpoint. One is in force at most.';
COMMENT ON COLUMN intake_stops.note IS 'The signed checkpoint that the log does not continue; a stop that was ended is not repeated for it.';
COMMENT ON COLUMN intake_stops.ended_for IS 'Reason that the operator gave.';

CREATE FUNCTION refuse_while_stopped() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM intake_stops WHERE ended_at IS NULL) THEN
        RAISE EXCEPTION 'intake is stopped' USING ERRCODE = 'LG002';
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER events_wait_while_stopped
    BEFORE INSERT ON events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_while_stopped();
