-- What is attached to accounts after their import. projections/platform.py fills the tables of schema `platform`.

CREATE TABLE platform.delivery_note (
    account_number           text NOT NULL,
    reference                text NOT NULL,
    recorded_at              timestamptz NOT NULL,
    malo_number              text,
    preceding_reference      text,
    cancelled                boolean,
    validation_status        boolean,
    last_validation_at       timestamptz,
    edifact_reference_number text,
    PRIMARY KEY (account_number, reference)
);

CREATE TABLE platform.delivery_note_amount (
    account_number          text NOT NULL,
    reference               text NOT NULL,
    ordinal                 integer NOT NULL,
    period_start_at         timestamptz,
    period_end_at           timestamptz,
    product_identifier      text,
    product_identifier_type text,
    quantity                numeric,
    quantity_unit           text,
    line_item_identifier    text,
    PRIMARY KEY (account_number, reference, ordinal)
);

CREATE TABLE platform.energy_amount (
    account_number              text NOT NULL,
    reference                   text NOT NULL,
    recorded_at                 timestamptz NOT NULL,
    malo_number                 text,
    product_identifier          text,
    product_identifier_type     text,
    period_start_at             timestamptz,
    period_end_at               timestamptz,
    quantity                    numeric,
    quantity_unit               text,
    line_item_identifier        text,
    preceding_reference         text,
    qualifier                   text,
    estimate_method             text,
    estimate_reason             text,
    correction_reason           text,
    edifact_reference_number    text,
    cancelled                   boolean,
    cancelled_at                timestamptz,
    cancelled_reference         text,
    plausibility_indications    text[],
    measurement_classifications text[],
    PRIMARY KEY (account_number, reference)
);

CREATE TABLE platform.market_participant_invoice (
    account_number                    text NOT NULL,
    reference                         text NOT NULL,
    recorded_at                       timestamptz NOT NULL,
    invoice_type                      text,
    invoice_sub_type                  text,
    invoice_document_type             text,
    invoice_number                    text,
    status                            text,
    interchange_reference             text,
    external_id                       text,
    malo_number                       text,
    melo_number                       text,
    reference_invoice_number          text,
    reference_document                text,
    reference_invoice_issued_at       timestamptz,
    issued_at                         timestamptz,
    due_at                            timestamptz,
    period_start_at                   timestamptz,
    period_end_at                     timestamptz,
    balancing_period_start_at         timestamptz,
    supply_period_end_at              timestamptz,
    service_conducted_at              timestamptz,
    amount_total                      bigint,
    amount_due                        bigint,
    amount_discount                   bigint,
    is_reverse_charge                 boolean,
    is_duplicate                      boolean,
    was_prepaid                       boolean,
    sender_id                         bigint,
    recipient_id                      bigint,
    sender_address_name               text,
    sender_address_street             text,
    sender_address_city               text,
    sender_address_postcode           text,
    sender_address_tax_number         text,
    sender_address_tax_number_type    text,
    sender_address_country_code       text,
    recipient_address_name            text,
    recipient_address_street          text,
    recipient_address_city            text,
    recipient_address_postcode        text,
    recipient_address_tax_number      text,
    recipient_address_tax_number_type text,
    recipient_address_country_code    text,
    paid_in_advance_amounts           json,
    PRIMARY KEY (account_number, reference)
);

CREATE TABLE platform.market_participant_invoice_line_item (
    account_number             text NOT NULL,
    reference                  text NOT NULL,
    ordinal                    integer NOT NULL,
    position                   bigint,
    article                    text,
    article_type               text,
    quantity                   numeric,
    quantity_unit              text,
    quantity_interval          json,
    quantity_interval_type     json,
    quantity_correction_factor json,
    price                      numeric,
    price_interval             json,
    tax_rate                   numeric,
    tax_rate_type              text,
    period_start_at            timestamptz,
    period_end_at              timestamptz,
    service_conducted_at       timestamptz,
    amount_net                 bigint,
    amount_adjustment          bigint,
    external_id                text,
    PRIMARY KEY (account_number, reference, ordinal)
);

CREATE TABLE platform.market_participant_invoice_tax_amount (
    account_number              text NOT NULL,
    reference                   text NOT NULL,
    ordinal                     integer NOT NULL,
    tax_rate                    numeric,
    tax_rate_type               text,
    tax_amount_assessment_basis bigint,
    tax_amount                  bigint,
    amount_paid_in_advance      bigint,
    tax_amount_paid_in_advance  bigint,
    PRIMARY KEY (account_number, reference, ordinal)
);

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
