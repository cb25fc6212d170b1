-- rollable: yes
-- What seals the log: the Merkle tree over its events, in tiles, and signed checkpoints of that tree.

CREATE TABLE log_tiles (
    level  smallint NOT NULL,
    index  bigint   NOT NULL,
    hashes bytea    NOT NULL,
    PRIMARY KEY (level, index)
);

ALTER TABLE log_tiles ALTER COLUMN hashes SET STORAGE EXTERNAL;

COMMENT ON TABLE log_tiles IS 'Up to 256 hashes side by side; level 0 are those of the events, in order.';

CREATE TABLE log_checkpoints (
    size      bigint      NOT NULL PRIMARY KEY,
    note      text        NOT NULL,
    sealed_at timestamptz NOT NULL
);

COMMENT ON TABLE log_checkpoints IS 'Signed notes (C2SP tlog-checkpoint); copies are kept outside of the database.';

CREATE TRIGGER log_checkpoints_are_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON log_checkpoints
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
