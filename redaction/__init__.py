"""Redaction of logs, terminals, traces of errors and pages; private files."""
