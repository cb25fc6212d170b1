"""What may be seen, and by whom: texts of logs and terminals, traces of errors, files of secrets."""
