"""Tests of the importers' client: the class `Client` and the command `importbook`."""
