-- rollable: yes
-- Statistics hold samples of values: none of what can be erased.

ALTER TABLE remembered_answers
    ALTER COLUMN command_id SET STATISTICS 0,
    ALTER COLUMN request_sha256 SET STATISTICS 0;
ALTER TABLE refused_attempts
    ALTER COLUMN external_account_number SET STATISTICS 0,
    ALTER COLUMN problems SET STATISTICS 0;
ALTER TABLE parked_streams ALTER COLUMN error SET STATISTICS 0;
