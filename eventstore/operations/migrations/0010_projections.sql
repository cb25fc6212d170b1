-- rollable: yes
-- The versions of each projection: which is live, which stand beside it, and what could not be projected.

CREATE TABLE projection_versions (
    name        text        NOT NULL,
    version     integer     NOT NULL,
    state       text        NOT NULL CHECK (state IN ('building', 'ready', 'live', 'retired')),
    position    bigint      NOT NULL,
    definition  text        NOT NULL,
    built_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    retired_at  timestamptz,
    verified_at timestamptz,
    differences bigint,
    PRIMARY KEY (name, version)
);

CREATE UNIQUE INDEX projection_versions_live ON projection_versions (name) WHERE state = 'live';

COMMENT ON COLUMN projection_versions.position IS 'Up to where its tables are made; a live one that is written with the append is always at the head.';
COMMENT ON COLUMN projection_versions.differences IS 'Rows that the last verification found to differ from the log.';

CREATE TABLE parked_streams (
    name      text        NOT NULL,
    version   integer     NOT NULL,
    stream    text        NOT NULL,
    position  bigint      NOT NULL,
    error     text        NOT NULL,
    parked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (name, version, stream)
);

COMMENT ON TABLE parked_streams IS 'Streams that a projection leaves out, from an event on that it could not take in.';
