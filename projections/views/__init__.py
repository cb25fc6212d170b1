"""The views, derived from the log, one file each."""
