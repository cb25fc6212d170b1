"""How long to wait before something is tried again."""

import random
from datetime import timedelta

BACKOFF_S = 2.0
MAX_BACKOFF_S = 300.0


def backoff(attempt: int) -> timedelta:
    """How long to wait after this attempt: doubling, with jitter, bounded."""
    return timedelta(seconds=min(MAX_BACKOFF_S, BACKOFF_S * 2 ** (attempt - 1)) * random.uniform(0.5, 1.0))
