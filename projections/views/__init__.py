"""Views derived from the log, one file each."""
