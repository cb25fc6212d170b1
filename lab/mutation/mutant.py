"""One change of one file, and what names it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One change of one file. `function` is where it stands, outermost first; empty at the level of the module."""

    file: str
    line: int
    function: tuple[str, ...]
    runs_at_import: bool
    was: str
    now: str
    source: str

    @property
    def change(self) -> str:
        """Name in the list of accepted survivors. It does not depend on line numbers."""
        return f"{'.'.join(self.function) or 'module'}: {self.was} => {self.now}"
