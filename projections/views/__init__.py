"""The views: everything that can be thrown away and derived from the log again. One file each."""
