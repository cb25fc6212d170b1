-- rollable: yes
-- The views that are written in the append's own transaction. Each belongs to a file in projections/.

CREATE TABLE import_status (
    supplier                text        NOT NULL,
    external_account_number text        NOT NULL,
    status                  text        NOT NULL,
    created_at              timestamptz NOT NULL,
    created_position        bigint      NOT NULL,
    modified_at             timestamptz NOT NULL,
    position                bigint      NOT NULL,
    version                 integer     NOT NULL,
    account_number          text,
    account_created_at      timestamptz,
    error_code              text,
    error_detail            text,
    error_domain            text,
    due_at                  timestamptz,
    lease_until             timestamptz,
    worker                  bigint,
    attempt                 integer,
    PRIMARY KEY (supplier, external_account_number)
);

CREATE INDEX import_status_in_order ON import_status (supplier, created_position);
CREATE INDEX import_status_open ON import_status (status, modified_at) WHERE status IN ('PENDING', 'IN_PROGRESS');

CREATE TABLE import_supplier (
    code            text        NOT NULL PRIMARY KEY,
    status          text        NOT NULL,
    reason          text        NOT NULL,
    strictness      text        NOT NULL,
    unknown_fields  text        NOT NULL,
    is_dry_run_only boolean     NOT NULL,
    created_at      timestamptz NOT NULL,
    modified_at     timestamptz NOT NULL,
    position        bigint      NOT NULL
);

CREATE TABLE access_key (
    key_id        text        NOT NULL PRIMARY KEY,
    organisation  text        NOT NULL,
    role          text        NOT NULL,
    suppliers     text[]      NOT NULL,
    secret_sha256 text        NOT NULL,
    created_at    timestamptz NOT NULL,
    revoked_at    timestamptz,
    position      bigint      NOT NULL
);
