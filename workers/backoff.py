"""Pauses between attempts of imports and e-mails."""

import random
from datetime import timedelta

BACKOFF_S = 2.0
MAX_BACKOFF_S = 300.0


def backoff(attempt: int) -> timedelta:
    """Return the pause after an attempt (from 1). Pauses double with each attempt, with jitter, up to MAX_BACKOFF_S."""
    return timedelta(seconds=min(MAX_BACKOFF_S, BACKOFF_S * 2 ** (attempt - 1)) * random.uniform(0.5, 1.0))
