"""Tests of the importing party's side."""
