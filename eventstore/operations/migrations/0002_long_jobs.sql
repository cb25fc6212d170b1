-- rollable: yes
-- Long jobs that worker processes of all machines do together, in parts: beside the log, and never part of it.

CREATE TABLE long_jobs (
    job        text        NOT NULL PRIMARY KEY,
    kind       text        NOT NULL,
    arguments  text        NOT NULL,
    edition    text        NOT NULL,
    upto       bigint      NOT NULL,
    asked_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at   timestamptz,
    outcome    text        NOT NULL DEFAULT '',
    refused_by text        NOT NULL DEFAULT '',
    requested_at timestamptz
);
CREATE UNIQUE INDEX long_jobs_open ON long_jobs (kind, arguments) WHERE ended_at IS NULL;

CREATE TABLE long_job_parts (
    job         text        NOT NULL REFERENCES long_jobs ON DELETE CASCADE,
    number      integer     NOT NULL,
    piece       text        NOT NULL,
    events      bigint      NOT NULL,
    worker      integer     NOT NULL DEFAULT 0,
    attempt     integer     NOT NULL DEFAULT 0,
    lease_until timestamptz,
    done_at     timestamptz,
    result      text        NOT NULL DEFAULT '',
    error       text        NOT NULL DEFAULT '',
    PRIMARY KEY (job, number)
);
ALTER TABLE long_job_parts ALTER COLUMN result SET STATISTICS 0;

COMMENT ON TABLE long_jobs IS 'What was asked of all workers by --spread, up to which position. Ended jobs can be deleted.';
COMMENT ON TABLE long_job_parts IS 'By job: parts, who has taken which until when, and what came of it. Can be deleted: the command makes them anew.';
