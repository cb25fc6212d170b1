-- rollable: yes
-- Long jobs that requests ask for: nobody waits for them on a connection, so it is noted when they were last asked for.

ALTER TABLE long_jobs ADD COLUMN requested_at timestamptz;

COMMENT ON COLUMN long_jobs.requested_at IS 'When a request last asked for it; NULL for a job that a command waits for.';
