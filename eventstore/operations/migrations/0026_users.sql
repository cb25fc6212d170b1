-- rollable: yes
-- People who use the console: what events must not hold of them, and what opens a session. All of it can be deleted.

CREATE TABLE user_details (
    user_id       text        NOT NULL PRIMARY KEY,
    email         text        NOT NULL,
    name          text        NOT NULL DEFAULT '',
    password_hash text        NOT NULL DEFAULT '',
    openid        text        UNIQUE,
    written_at    timestamptz NOT NULL
);
CREATE UNIQUE INDEX user_details_email ON user_details (lower(email));

CREATE TABLE sign_in_links (
    token_sha256 bytea       NOT NULL PRIMARY KEY,
    user_id      text        NOT NULL,
    expires_at   timestamptz NOT NULL
);
CREATE INDEX sign_in_links_of_user ON sign_in_links (user_id);

CREATE TABLE user_sessions (
    token_sha256 bytea       NOT NULL PRIMARY KEY,
    session      text        NOT NULL UNIQUE,
    user_id      text        NOT NULL,
    began_at     timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL
);
CREATE INDEX user_sessions_of_user ON user_sessions (user_id);

CREATE TABLE failed_sign_ins (
    who_sha256 bytea       NOT NULL PRIMARY KEY,
    failures   integer     NOT NULL,
    last_at    timestamptz NOT NULL
);
CREATE INDEX failed_sign_ins_in_time ON failed_sign_ins (last_at);

CREATE TABLE typed_reasons (
    reason  text        NOT NULL PRIMARY KEY,
    user_id text        NOT NULL,
    subject text        NOT NULL,
    at      timestamptz NOT NULL,
    content text        NOT NULL
);
CREATE INDEX typed_reasons_of_subject ON typed_reasons (subject);
CREATE INDEX typed_reasons_of_user ON typed_reasons (user_id);

COMMENT ON TABLE user_details IS 'By user id: what events do not hold of people who use the console. Deleting a row erases the person.';
COMMENT ON COLUMN user_details.password_hash IS 'argon2id; empty until a password was set.';
COMMENT ON COLUMN user_details.openid IS 'Issuer and subject of an OpenID provider.';
COMMENT ON TABLE sign_in_links IS 'Links that sign in once, by the SHA-256 of what is in them; using one deletes it.';
COMMENT ON TABLE user_sessions IS 'Open sessions, by the SHA-256 of what is in the cookie; ending one deletes it.';
COMMENT ON TABLE failed_sign_ins IS 'How often signing in has failed in a row, by SHA-256 of the address that was typed or came.';
COMMENT ON TABLE typed_reasons IS 'Reasons that users have typed, by the id that events carry; deleted with their subject or their user.';
COMMENT ON COLUMN typed_reasons.subject IS 'The stream that the reason is about: of an import, the person''s.';

-- Statistics hold samples of values: none of what can be erased, and of what opens a session.
ALTER TABLE user_details ALTER COLUMN email SET STATISTICS 0, ALTER COLUMN name SET STATISTICS 0,
    ALTER COLUMN password_hash SET STATISTICS 0, ALTER COLUMN openid SET STATISTICS 0;
ALTER TABLE typed_reasons ALTER COLUMN content SET STATISTICS 0;
