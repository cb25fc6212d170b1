-- rollable: yes
-- What lists of imports and checks between accounts look things up by.

-- Imports of a supplier by status, in order of creation. Those in progress are few, and those processed are most.
CREATE INDEX import_status_by_status ON import_status (supplier, status, created_position)
    WHERE status IN ('PENDING', 'ERRORED', 'CANCELLED', 'DRY_RUN_SUCCEEDED', 'DRY_RUN_ERRORED');
CREATE INDEX import_status_by_error ON import_status (supplier, error_code, created_position)
    WHERE error_code IS NOT NULL;
CREATE INDEX import_status_with_error ON import_status (supplier, created_position) WHERE error_code IS NOT NULL;
