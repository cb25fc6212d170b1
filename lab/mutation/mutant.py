"""One change of one file, and its name."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One change of one file. `function` names the classes and functions around it, from outside; () for the module."""

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
