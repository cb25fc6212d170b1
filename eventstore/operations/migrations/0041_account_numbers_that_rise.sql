-- Accounts that are made one after the other get rising numbers, so that their rows lie side by side in every index.

-- Where a number was drawn in a former form, all are: those of two forms could meet.
UPDATE platform.account_number_key SET form = 3 WHERE NOT (SELECT is_called FROM platform.account_sequence);

COMMENT ON COLUMN platform.account_number_key.form IS
    'How numbers are drawn: 1 anywhere among all, 2 block by block, 3 rising, in small blocks.';
