"""Progress of the job that computes a run's totals, in answers of the API."""

from schemas.base import Wire


class JobProgress(Wire, frozen=True, kw_only=True):
    """Progress of the job that computes the totals of a run. `eta_s` is null while it is unknown."""

    accounts: int
    """Number of accounts of the run (Anzahl der Konten)."""
    accounts_done: int
    """Number of accounts that the job has added up (davon erledigt)."""
    eta_s: float | None
    """Estimated seconds until the end (geschätzte Restzeit)."""
    why: str = ""
    """Reason why the job makes no progress, or "" (Grund des Stillstands)."""
