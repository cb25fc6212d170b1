"""The platform's records: their tables, and what an event changes in them."""
