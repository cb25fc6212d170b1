"""Bulk imports: read NDJSON and answer a receipt for each line meanwhile, in constant memory."""
