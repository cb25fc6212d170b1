"""What imports of tests fail with."""

MISSING = "path_does_not_exist_in_file_store@statements.0.statement_path"
INVALID = "account_failed_validation"
