-- rollable: yes
-- More settings of import suppliers, and the state of e-mails to customers.

ALTER TABLE import_supplier
    ADD COLUMN documents_root        text    NOT NULL DEFAULT '',
    ADD COLUMN documents_check       text    NOT NULL DEFAULT 'off',
    ADD COLUMN sends_customer_emails boolean NOT NULL DEFAULT false,
    ADD COLUMN email_language        text    NOT NULL DEFAULT 'de';

CREATE TABLE customer_mail (
    supplier                text        NOT NULL,
    external_account_number text        NOT NULL,
    status                  text        NOT NULL,
    attempt                 integer     NOT NULL,
    worker                  bigint,
    lease_until             timestamptz,
    due_at                  timestamptz,
    error_code              text,
    modified_at             timestamptz NOT NULL,
    position                bigint      NOT NULL,
    PRIMARY KEY (supplier, external_account_number)
);

CREATE INDEX customer_mail_open ON customer_mail (status, modified_at) WHERE status IN ('REQUESTED', 'SENDING');
