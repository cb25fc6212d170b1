"""Presentation of pages: texts, formats, payload trees, timelines, rendering."""
