"""Progress of the job that computes a run's totals, as the API answers it."""

from schemas.base import Wire


class JobProgress(Wire, frozen=True, kw_only=True):
    """Progress of the job that computes the totals of a run. `eta_s` is null while it is unknown."""

    accounts: int
    """Number of accounts of the run (Anzahl der Konten)."""
    accounts_done: int
    """Number of accounts in the totals so far (davon erledigt)."""
    eta_s: float | None
    """Estimated seconds until the end (geschätzte Restzeit)."""
    why: str = ""
    """Reason why there is no progress, if there is none (Grund des Stillstands)."""
