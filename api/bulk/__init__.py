"""Bulk imports: NDJSON in, a receipt for each line out, both at once and in constant memory."""
