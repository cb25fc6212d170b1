-- rollable: yes
-- How far a task of the database's owner is, and what came of it: beside the log, since it may tell of persons.

CREATE TABLE owner_task_progress (
    task_id    text        NOT NULL PRIMARY KEY,
    done       bigint      NOT NULL DEFAULT 0,
    total      bigint      NOT NULL DEFAULT 0,
    outcome    text        NOT NULL DEFAULT '',
    written_at timestamptz NOT NULL
);
ALTER TABLE owner_task_progress ALTER COLUMN outcome SET STATISTICS 0;

COMMENT ON TABLE owner_task_progress IS 'By task: events looked at of how many, and the outcome as JSON. Can be deleted.';
