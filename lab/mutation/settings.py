"""Settings: files that are changed, tests that must notice, and survivors that are accepted for a reason."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

ACCEPTED = Path("lab/mutation/accepted.toml")


@dataclass(frozen=True)
class Group:
    """Files whose changes must be detected by the same tests."""

    files: tuple[str, ...]
    tests: tuple[str, ...]


def groups() -> list[Group]:
    """Read `[[tool.mutants.group]]` of pyproject.toml. A file belongs to the first group with a pattern for it."""
    found: list[Group] = []
    used: set[str] = set()
    for entry in tomllib.loads(Path("pyproject.toml").read_text())["tool"]["mutants"]["group"]:
        files = {str(path) for pattern in entry["files"] for path in Path().glob(pattern)} - used
        found.append(Group(tuple(sorted(files)), tuple(entry["tests"])))
        used |= files
    return found


def accepted(file: Path = ACCEPTED) -> dict[str, set[str]]:
    """Return the changes that may survive, by file. Raises ValueError for an entry without a reason."""
    found: dict[str, set[str]] = {}
    for entry in tomllib.loads(file.read_text()).get("accepted", ()) if file.exists() else ():
        if len(entry["reason"].split()) < 3:
            raise ValueError(f"{file}: {entry['file']} has survivors without a reason")
        found.setdefault(entry["file"], set()).update(entry["changes"])
    return found
