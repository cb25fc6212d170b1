-- Accounts that are made one after the other get numbers of one block, so that their rows lie together in every index.

ALTER TABLE platform.account_number_key ADD COLUMN form integer NOT NULL DEFAULT 1;

-- Where a number was drawn in the former form, all are: those of the two forms could meet.
UPDATE platform.account_number_key SET form = 2 WHERE NOT (SELECT is_called FROM platform.account_sequence);

COMMENT ON COLUMN platform.account_number_key.form IS 'How numbers are drawn: 1 anywhere among all, 2 block by block.';
