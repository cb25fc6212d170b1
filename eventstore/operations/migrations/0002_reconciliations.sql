-- rollable: yes
-- Runs that a worker adds up: beside the log, and never part of it.

CREATE TABLE reconciliations (
    supplier      text        NOT NULL,
    run           text        NOT NULL,
    job           text        NOT NULL UNIQUE,
    reached       bigint      NOT NULL,
    accounts      bigint      NOT NULL,
    accounts_done bigint      NOT NULL DEFAULT 0,
    after_place   text        NOT NULL DEFAULT '',
    totals        text        NOT NULL DEFAULT '{}',
    code_version  text        NOT NULL DEFAULT '',
    worker        integer     NOT NULL DEFAULT 0,
    attempt       integer     NOT NULL DEFAULT 0,
    lease_until   timestamptz NOT NULL DEFAULT '-infinity',
    asked_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    requested_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    worked_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at      timestamptz,
    delivered_at  timestamptz,
    error         text        NOT NULL DEFAULT '',
    PRIMARY KEY (supplier, run)
);
ALTER TABLE reconciliations
    ALTER COLUMN after_place SET STATISTICS 0,
    ALTER COLUMN totals SET STATISTICS 0,
    ALTER COLUMN error SET STATISTICS 0;

COMMENT ON TABLE reconciliations IS 'Runs that a worker adds up, or has added up: deleting a row cancels the job.';
COMMENT ON COLUMN reconciliations.reached IS 'Position of the last event of the run when the job was requested.';
COMMENT ON COLUMN reconciliations.after_place IS 'JSON: the account after which the next portion begins. The accounts up to it are in totals.';
COMMENT ON COLUMN reconciliations.requested_at IS 'When a request last asked for the job. One that nobody asks for is deleted.';
