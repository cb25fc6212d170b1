"""What every projection gets for nothing: following the log, versions, rebuilding, comparing, healing."""
