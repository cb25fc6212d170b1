-- rollable: no, sessions, passwords and requests for certificates of the version before bear no MAC
-- Rows that carry authority bear a MAC, whose key is not in the database.

ALTER TABLE user_sessions ADD COLUMN mac text NOT NULL DEFAULT '';
ALTER TABLE user_details ADD COLUMN mac text NOT NULL DEFAULT '';
ALTER TABLE statement_requests ADD COLUMN mac text NOT NULL DEFAULT '';

COMMENT ON COLUMN user_sessions.mac IS 'Over all other columns. A session without it opens nothing.';
COMMENT ON COLUMN user_details.mac IS 'Over user_id, openid and password_hash. Without it, neither of the two signs anybody in.';
COMMENT ON COLUMN statement_requests.mac IS 'Over id, body and requested_at. A request without it is not signed.';
