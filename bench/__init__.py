"""Benchmarks: ratios measured in one run, and the peers that they are measured against. `make bench` runs all."""
