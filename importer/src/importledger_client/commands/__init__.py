"""The command importbook."""
