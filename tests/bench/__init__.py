"""Tests of what the benchmark says, not of what it measures."""
