"""Progress of a background job, over HTTP and in programs."""

from schemas.base import Wire


class JobProgress(Wire, frozen=True, kw_only=True):
    """How far a worker is with adding up a run. `eta_s` is null while it is unknown."""

    accounts: int
    """How many accounts the run has (Anzahl der Konten)."""
    accounts_done: int
    """How many of them are added up (davon erledigt)."""
    eta_s: float | None
    """Seconds that the rest will take (geschätzte Restzeit)."""
    why: str = ""
    """Why there is no progress, where there is none (Grund des Stillstands)."""
