"""Contestants: what a team would build with the usual frameworks, tuned as their documentation says.

Their libraries are installed by `make bench` alone (`requirements/bench.txt`).
"""
