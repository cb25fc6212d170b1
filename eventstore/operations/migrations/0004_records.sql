-- rollable: yes
-- What is attached to accounts after their import.

CREATE TABLE account_record (
    stream                  text        NOT NULL PRIMARY KEY,
    kind                    text        NOT NULL,
    supplier                text        NOT NULL,
    external_account_number text        NOT NULL,
    account_number          text        NOT NULL,
    is_cancelled            boolean     NOT NULL,
    created_at              timestamptz NOT NULL,
    modified_at             timestamptz NOT NULL,
    position                bigint      NOT NULL
);

CREATE INDEX account_record_of_account ON account_record (supplier, external_account_number);
