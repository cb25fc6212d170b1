-- online: imports of a supplier in a state that failed for a code; without it, a list of those reads all that did.
CREATE INDEX CONCURRENTLY IF NOT EXISTS import_status_by_error_and_status
    ON import_status (supplier, status, error_code, created_position)
    WHERE error_code IS NOT NULL;
