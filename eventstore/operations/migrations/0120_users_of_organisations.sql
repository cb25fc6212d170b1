-- rollable: yes
-- An address is that of one user in each organisation. Whoever adds a user learns nothing of other organisations.
ALTER TABLE user_details ADD COLUMN organisation text NOT NULL DEFAULT '';

DO $$
BEGIN
    IF to_regclass('console_user') IS NOT NULL THEN
        UPDATE user_details AS d SET organisation = u.organisation
        FROM console_user AS u WHERE u.user_id = d.user_id;
    END IF;
END
$$;

-- squawk-ignore require-concurrent-index-deletion
DROP INDEX user_details_email;
-- squawk-ignore require-concurrent-index-creation
CREATE UNIQUE INDEX user_details_email ON user_details (lower(email), organisation);

COMMENT ON COLUMN user_details.organisation IS 'Within which the address is that of one user.';
