-- rollable: yes
-- What was refused, by account: outside the log, so that it can be deleted after 90 days and with the person.

CREATE TABLE refused_attempts (
    number                  bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    supplier                text        NOT NULL,
    external_account_number text        NOT NULL,
    attempted_at            timestamptz NOT NULL,
    operation               text        NOT NULL,
    code                    text        NOT NULL,
    problems                text[]      NOT NULL
);

CREATE INDEX refused_attempts_of_account ON refused_attempts (external_account_number, supplier, number);
CREATE INDEX refused_attempts_of_supplier ON refused_attempts (supplier, number);
CREATE INDEX refused_attempts_in_time ON refused_attempts USING brin (attempted_at);

COMMENT ON TABLE refused_attempts IS 'Requests about an account that were refused: when, which, codes and paths; no values.';
COMMENT ON COLUMN refused_attempts.problems IS 'code@path of each; the name of an undocumented field is *.';
