-- rollable: yes
-- The ways of appending from before payloads were encrypted (0009), which nothing calls.

DROP FUNCTION IF EXISTS append_events(
    text[], integer[], text[], timestamptz[], text[], text[], text[], text, bytea[],
    text[], bytea[], timestamptz[], integer[], bytea[]
);
DROP FUNCTION IF EXISTS append_answered_events(
    text[], integer[], text[], timestamptz[], text[], text[], text[], text, bytea[],
    text[], bytea[], timestamptz[], integer[], bytea[],
    text[], integer[], bytea[], integer[], bytea[]
);
