-- rollable: yes
-- Statements that wait for the holder of the sealing key to sign them, or were signed and wait to be fetched.

CREATE TABLE statement_requests (
    id           uuid        NOT NULL PRIMARY KEY,
    body         text        NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    signed       text,
    refusal      text
);

COMMENT ON TABLE statement_requests IS 'A queue: who asks deletes its row with the answer, the sealer deletes what nobody fetched.';
