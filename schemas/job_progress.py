"""How far a long job is, for whoever waits for it on a terminal, over HTTP or in a program."""

from schemas.base import Wire


class JobProgress(Wire, frozen=True, kw_only=True):
    """How far worker processes are with a long job that they do in parts. `eta_s` is null while it is unknown."""

    job: str
    """Name of the job (Auftrag)."""
    parts: int
    """How many parts it has (Anzahl der Teile)."""
    parts_done: int
    """How many of them are done (erledigte Teile)."""
    parts_taken: int
    """How many of them workers are at (Teile in Arbeit)."""
    events: int
    """How many events, of a run how many accounts, are in all parts (Umfang)."""
    events_done: int
    """How many of them are in parts that are done (davon erledigt)."""
    workers: int
    """How many worker processes run (laufende Worker)."""
    eta_s: float | None
    """Seconds that the rest will take (geschätzte Restzeit)."""
    why: str = ""
    """Why nothing goes on, where nothing does (Grund des Stillstands)."""
