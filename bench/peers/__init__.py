"""Peers to compare with: the same endpoints in the usual frameworks, tuned as their documentation says.

Their libraries are installed by `make bench` alone (`requirements/bench.txt`).
"""
