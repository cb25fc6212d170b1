"""Versions of projections: following the log, rebuilding, comparing, switching, healing."""
