-- The platform's records: one table per kind of object in an account. projections/platform.py fills them.
-- No foreign keys: every row is derived from a payload in one transaction, and a check would cost more than the rows.

CREATE SCHEMA platform;

-- Account numbers are a keyed permutation of this sequence: never drawn twice, never guessable.
CREATE SEQUENCE platform.account_sequence;

CREATE TABLE platform.account_number_key AS
SELECT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) AS key;

CREATE TABLE platform.service_account (
    account_number          text NOT NULL,
    created_at              timestamptz NOT NULL,
    external_account_number text NOT NULL,
    import_supplier         text NOT NULL,
    unknown_occupier        boolean,
    billing_address1        text,
    billing_address2        text,
    billing_address3        text,
    billing_address4        text,
    billing_postcode        text,
    sales_channel           text,
    sales_subchannel        text,
    transfer_balance        numeric,
    PRIMARY KEY (account_number),
    UNIQUE (import_supplier, external_account_number)
);

CREATE TABLE platform.customer (
    account_number text NOT NULL,
    ordinal        integer NOT NULL,
    given_name     text,
    family_name    text,
    email          text,
    mobile         text,
    landline       text,
    date_of_birth  date,
    title          text,
    salutation     text,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.consent (
    account_number   text NOT NULL,
    ordinal          integer NOT NULL,
    customer_ordinal integer NOT NULL,
    type             text,
    value            text,
    description      text,
    signed_at        timestamptz,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.supply_address (
    account_number                       text NOT NULL,
    ordinal                              integer NOT NULL,
    supply_address1                      text,
    supply_address2                      text,
    supply_address3                      text,
    supply_address4                      text,
    supply_postcode                      text,
    customer_at_supply_address_from_date date,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.supply_point (
    account_number         text NOT NULL,
    ordinal                integer NOT NULL,
    supply_address_ordinal integer NOT NULL,
    identifier             text,
    supply_type            text,
    supply_start_date      date,
    supply_end_date        date,
    supply_start_type      text,
    previous_supplier_id   text,
    last_billed_to_date    date,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.agreement (
    account_number                              text NOT NULL,
    ordinal                                     integer NOT NULL,
    supply_point_ordinal                        integer NOT NULL,
    effective_from                              date,
    effective_to                                date,
    agreed_at                                   timestamptz,
    product_code                                text,
    sign_up_reward_amount                       numeric,
    sign_up_reward_scheme_name                  text,
    params_annual_consumption                   numeric,
    params_annual_nighttime_usage               numeric,
    params_unit_rate_per_kwh                    numeric,
    params_net_unit_rate_per_kwh                numeric,
    params_night_unit_rate_per_kwh              numeric,
    params_net_night_unit_rate_per_kwh          numeric,
    params_monthly_standing_charge              numeric,
    params_net_monthly_standing_charge          numeric,
    params_total_estimated_annual_bill_in_euros numeric,
    params_network_charges                      json,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.melo (
    account_number       text NOT NULL,
    ordinal              integer NOT NULL,
    supply_point_ordinal integer NOT NULL,
    melo_number          text,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.meter (
    account_number    text NOT NULL,
    ordinal           integer NOT NULL,
    melo_ordinal      integer NOT NULL,
    meter_number      text,
    meter_type        text,
    meter_sub_type    text,
    messwerterfassung text,
    energierichtung   text,
    fernschaltung     text,
    registeranzahl    text,
    active_from       timestamptz,
    active_to         timestamptz,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.register (
    account_number          text NOT NULL,
    ordinal                 integer NOT NULL,
    meter_ordinal           integer NOT NULL,
    obis_code               text,
    digits                  bigint,
    decimal_places          bigint,
    is_relevant_for_billing boolean,
    active_from             timestamptz,
    active_to               timestamptz,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.reading (
    account_number           text NOT NULL,
    ordinal                  integer NOT NULL,
    register_ordinal         integer NOT NULL,
    status                   text,
    value                    numeric,
    type_of_read             text,
    origin                   text,
    qualifier                text,
    read_at                  timestamptz,
    is_transfer_reading      boolean,
    edifact_reference_number text,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.smgw_configuration (
    account_number   text NOT NULL,
    ordinal          integer NOT NULL,
    register_ordinal integer NOT NULL,
    configuration_id text,
    valid_from       timestamptz,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.conversion_factor (
    account_number           text NOT NULL,
    ordinal                  integer NOT NULL,
    melo_ordinal             integer NOT NULL,
    active_from_date         date,
    active_to_date           date,
    edifact_reference_number text,
    calorific_value          numeric,
    condition_value          numeric,
    factor                   numeric,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.electricity_meter_gateway (
    account_number       text NOT NULL,
    ordinal              integer NOT NULL,
    melo_ordinal         integer NOT NULL,
    number               text,
    communication_method text,
    valid_from           timestamptz,
    valid_to             timestamptz,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.balancing_period (
    account_number       text NOT NULL,
    ordinal              integer NOT NULL,
    supply_point_ordinal integer NOT NULL,
    valid_from           timestamptz,
    valid_to             timestamptz,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.balancing_period_time_slice (
    account_number           text NOT NULL,
    ordinal                  integer NOT NULL,
    balancing_period_ordinal integer NOT NULL,
    valid_from               date,
    valid_to                 date,
    balancing_group          text,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.meter_operator (
    account_number       text NOT NULL,
    ordinal              integer NOT NULL,
    supply_point_ordinal integer NOT NULL,
    code                 text,
    valid_from           timestamptz,
    valid_to             timestamptz,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.network_operator (
    account_number       text NOT NULL,
    ordinal              integer NOT NULL,
    supply_point_ordinal integer NOT NULL,
    code                 text,
    valid_from           timestamptz,
    valid_to             timestamptz,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.transmission_system_operator (
    account_number       text NOT NULL,
    ordinal              integer NOT NULL,
    supply_point_ordinal integer NOT NULL,
    code                 text,
    valid_from           timestamptz,
    valid_to             timestamptz,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.article (
    account_number                     text NOT NULL,
    ordinal                            integer NOT NULL,
    supply_point_ordinal               integer NOT NULL,
    article_id                         text,
    article_type                       text,
    period_start_at                    timestamptz,
    period_end_at                      timestamptz,
    quantity                           numeric,
    municipal_rebate_percent           numeric,
    adjustment_type                    text,
    adjustment_percent                 numeric,
    number_of_individual_assets        numeric,
    price_per_individual_asset_per_day numeric,
    time_of_use_definition             numeric,
    time_of_use_register               numeric,
    custom_price                       numeric,
    custom_price_quantity              numeric,
    custom_price_quantity_unit         text,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.gas_load_profile (
    account_number                  text NOT NULL,
    ordinal                         integer NOT NULL,
    supply_point_ordinal            integer NOT NULL,
    valid_from                      timestamptz,
    valid_to                        timestamptz,
    tum_kundenwert                  text,
    jahresmenge_kwh                 text,
    marktgebiet                     text,
    profilname                      text,
    bilanzierungsverfahren          text,
    druckebene                      text,
    gas_quality                     text,
    prognosegrundlage               text,
    fallgruppenzuordnung            text,
    netznutzungsvertrag_type        text,
    netznutzungszahlung             text,
    netznutzungsabrechnungsvariante text,
    tagesparameter_type             text,
    tagesparameter_location         text,
    tagesparameter_provider         text,
    bilanzkreis                     text,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.electricity_load_profile (
    account_number                                text NOT NULL,
    ordinal                                       integer NOT NULL,
    supply_point_ordinal                          integer NOT NULL,
    valid_from                                    timestamptz,
    valid_to                                      timestamptz,
    smgw_wahlrecht                                boolean,
    bilanzierungsgebiet                           text,
    regelzone                                     text,
    aggregationsverantwortung                     text,
    lieferrichtung                                text,
    prognosegrundlage_werte_profile               text,
    prognosegrundlage_slp_tlp                     text,
    slp_profilname                                text,
    slp_bilanzierungsverfahren                    text,
    slp_jvp_kwh                                   text,
    tlp_profilname                                text,
    tlp_bilanzierungsverfahren                    text,
    tlp_profilschar                               text,
    tlp_jvp_spezifische_arbeit_265_kwhk           text,
    tlp_jvp_angepasste_elektrische_arbeit_z08_kwh text,
    tlp_klima_temperatur_typ                      text,
    tlp_klima_temperatur_kennzeichnung            text,
    tlp_klima_temperatur_codeliste                text,
    tlp_klima_temperatur_codepflege               text,
    smgw_wahlrecht_grund_ablehnung                text,
    summenzeitreihentyp                           text,
    bilanzkreis                                   text,
    spannungsebene                                text,
    umspannung                                    text,
    abwicklungsmodell                             text,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.reference (
    account_number text NOT NULL,
    ordinal        integer NOT NULL,
    namespace      text,
    value          text,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.statement (
    account_number        text NOT NULL,
    ordinal               integer NOT NULL,
    bill_period_from_date date,
    bill_period_to_date   date,
    statement_path        text,
    statement_id          text,
    supply_type           text,
    annual_consumption    bigint,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.ledger (
    account_number              text NOT NULL,
    ordinal                     integer NOT NULL,
    identifiers                 text[],
    ledger_code                 text,
    last_statement_closing_date date,
    last_statement_balance      numeric,
    ledger_balance              numeric,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.transaction (
    account_number   text NOT NULL,
    ordinal          integer NOT NULL,
    ledger_ordinal   integer NOT NULL,
    transaction_id   text,
    transaction_date date,
    amount           numeric,
    type             text,
    reason           text,
    payment_type     text,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.payment_instruction (
    account_number              text NOT NULL,
    ordinal                     integer NOT NULL,
    vendor                      text,
    reference                   text,
    type                        text,
    ledger_code                 text,
    valid_from                  date,
    bank_account_account_holder text,
    bank_account_account_number text,
    bank_account_iban           text,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.payment_schedule (
    account_number text NOT NULL,
    ordinal        integer NOT NULL,
    amount         numeric,
    ledger_code    text,
    day_of_month   bigint,
    frequency      text,
    means          text,
    start_date     date,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.account_campaign (
    account_number text NOT NULL,
    ordinal        integer NOT NULL,
    slug           text,
    campaign_note  text,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.metadata_item (
    account_number text NOT NULL,
    ordinal        integer NOT NULL,
    key            text,
    value          json,
    PRIMARY KEY (account_number, ordinal)
);

CREATE TABLE platform.note (
    account_number text NOT NULL,
    ordinal        integer NOT NULL,
    created_at     timestamptz,
    body           text,
    is_pinned      boolean,
    PRIMARY KEY (account_number, ordinal)
);

