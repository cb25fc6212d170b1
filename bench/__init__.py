"""Benchmarks: ratios of rates of one run, and the peers that the service is compared with. `make bench` runs all."""
