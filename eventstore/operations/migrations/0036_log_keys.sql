-- rollable: yes
-- The public halves of the keys that have sealed the log, so that whoever writes a proof can put them beside it.

CREATE TABLE log_keys (
    origin   text        NOT NULL PRIMARY KEY,
    verifier text        NOT NULL,
    used_at  timestamptz NOT NULL
);

COMMENT ON TABLE log_keys IS 'Verifier keys by the origin of their checkpoints. Not secret; who verifies compares them with the one that they were given.';
COMMENT ON COLUMN log_keys.used_at IS 'When it has sealed first, as far as this table knows.';

CREATE TRIGGER log_keys_are_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON log_keys
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
