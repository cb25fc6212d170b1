-- rollable: yes
-- Schema of the platform's records, and what account numbers are drawn from. The tables are declared in
-- projections/platform/tables.py, and made by projections/versioning/install.py.

CREATE SCHEMA platform;

-- Account numbers are a keyed permutation of this sequence: never drawn twice, never guessable.
CREATE SEQUENCE platform.account_sequence;

CREATE TABLE platform.account_number_key AS
SELECT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) AS key;
