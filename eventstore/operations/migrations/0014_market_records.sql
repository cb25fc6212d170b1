-- The market's records, imported before accounts. They belong to no supplier: a participant is named by its code,
-- a price sheet by its participant and its document number. projections/platform fills them.

CREATE TABLE platform.market_participant (
    code        bigint NOT NULL,
    recorded_at timestamptz NOT NULL,
    code_type   text,
    name        text,
    role        text,
    energy      text,
    PRIMARY KEY (code)
);

CREATE TABLE platform.market_participant_contact (
    code       bigint NOT NULL,
    ordinal    integer NOT NULL,
    category   text,
    name       text,
    email      text,
    phone      text,
    valid_from timestamptz,
    PRIMARY KEY (code, ordinal)
);

CREATE TABLE platform.price_sheet (
    market_participant_code   bigint NOT NULL,
    document_number           text NOT NULL,
    recorded_at               timestamptz NOT NULL,
    price_sheet_type          text,
    preceding_document_number text,
    is_price_sheet_unused     boolean,
    active_from               timestamptz,
    external_id               text,
    PRIMARY KEY (market_participant_code, document_number)
);

CREATE TABLE platform.price_sheet_article_price (
    market_participant_code   bigint NOT NULL,
    document_number           text NOT NULL,
    ordinal                   integer NOT NULL,
    article_id                text,
    price_cents               numeric,
    interval_zone_lower_bound numeric,
    interval_zone_upper_bound numeric,
    PRIMARY KEY (market_participant_code, document_number, ordinal)
);
