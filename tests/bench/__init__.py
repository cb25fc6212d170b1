"""Tests of the benchmark's reports, not of its measurements."""
