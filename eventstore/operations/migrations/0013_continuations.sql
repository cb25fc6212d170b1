-- rollable: yes
-- A log that has lost its end may go on openly: its checkpoints from then on belong to another branch.

ALTER TABLE log_checkpoints
    ADD COLUMN branch    integer NOT NULL DEFAULT 0,
    ADD COLUMN continues bigint,
    ADD COLUMN lost      bigint,
    DROP CONSTRAINT log_checkpoints_pkey,
    ADD PRIMARY KEY (branch, size);

COMMENT ON COLUMN log_checkpoints.continues IS 'Of the first of a branch: up to which position the older branch was kept.';
COMMENT ON COLUMN log_checkpoints.lost IS 'Of the same: up to which position the older branch had been signed.';
