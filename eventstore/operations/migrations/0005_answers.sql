-- rollable: yes
-- First answers to requests with an Idempotency-Key, stored with the events that they speak of.

CREATE TABLE remembered_answers (
    command_id     text        NOT NULL PRIMARY KEY,
    request_sha256 bytea       NOT NULL,
    status         integer     NOT NULL,
    body           bytea       NOT NULL,
    recorded_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

COMMENT ON COLUMN remembered_answers.command_id IS 'Organisation, method, path and key; events carry it too.';

-- As append_events, with answers: `answer_numbers` are the numbers (from 1) of the events that they speak of.
-- An answer that is there already is a conflict of its event. Answers come before payloads and log, everywhere.
CREATE FUNCTION append_answered_events(
    streams text[], versions integer[], topics text[], times timestamptz[], suppliers text[], causes text[],
    command_ids text[], code_version text, states bytea[],
    payload_streams text[], payload_digests bytea[], payload_times timestamptz[], payload_sizes integer[],
    payload_contents bytea[],
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
                         payload_streams, payload_digests, payload_times, payload_sizes, payload_contents);
EXCEPTION WHEN unique_violation THEN
    SELECT string_agg(n::text, ',') INTO conflicts
    FROM unnest(answer_ids, answer_numbers) AS new (i, n)
    JOIN remembered_answers ON remembered_answers.command_id = new.i;
    RAISE EXCEPTION 'version conflict' USING ERRCODE = 'LG001', DETAIL = coalesce(conflicts, '');
END
$$;
