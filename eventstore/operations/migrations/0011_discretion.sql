-- rollable: yes
-- Statistics hold samples of values: none of keys, of payloads and of answers, neither from now on nor from before.

ALTER TABLE payload_keys ALTER COLUMN key SET STATISTICS 0;
ALTER TABLE payloads ALTER COLUMN content SET STATISTICS 0;
ALTER TABLE remembered_answers ALTER COLUMN body SET STATISTICS 0;

DO $$
BEGIN
    IF current_setting('server_version_num')::integer >= 180000 THEN
        PERFORM pg_clear_attribute_stats('public', 'payload_keys', 'key', false);
        PERFORM pg_clear_attribute_stats('public', 'payloads', 'content', false);
        PERFORM pg_clear_attribute_stats('public', 'remembered_answers', 'body', false);
    END IF;
END
$$;

COMMENT ON COLUMN remembered_answers.command_id IS 'SHA-256 of organisation, method, path and key, which events carry too; in clear where it is older than this.';
