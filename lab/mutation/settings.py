"""Which files are changed, which tests have to notice, and which survivors are accepted for which reason."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

ACCEPTED = Path("lab/mutation/accepted.toml")


@dataclass(frozen=True)
class Group:
    """Files whose changes have to be noticed by the same tests."""

    files: tuple[str, ...]
    tests: tuple[str, ...]


def groups() -> list[Group]:
    """`[[tool.mutants.group]]` of pyproject.toml; `files` are patterns, and a file belongs to the first it fits."""
    found: list[Group] = []
    taken: set[str] = set()
    for entry in tomllib.loads(Path("pyproject.toml").read_text())["tool"]["mutants"]["group"]:
        files = {str(path) for pattern in entry["files"] for path in Path().glob(pattern)} - taken
        found.append(Group(tuple(sorted(files)), tuple(entry["tests"])))
        taken |= files
    return found


def accepted(file: Path = ACCEPTED) -> dict[str, set[str]]:
    """Changes that may survive, by file. Raises ValueError for one without a reason."""
    found: dict[str, set[str]] = {}
    for entry in tomllib.loads(file.read_text()).get("accepted", ()) if file.exists() else ():
        if len(entry["reason"].split()) < 3:
            raise ValueError(f"{file}: {entry['file']} has survivors without a reason")
        found.setdefault(entry["file"], set()).update(entry["changes"])
    return found
