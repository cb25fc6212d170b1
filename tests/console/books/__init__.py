"""Tests of books of importers."""
