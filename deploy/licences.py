"""Writes the list of licences from a CycloneDX bill of materials: `licences.py SBOM.json LICENCES.csv`.

Ends with 1 where a component says no licence: somebody has to look.
"""

import csv
import json
import sys
from pathlib import Path
from typing import Any

SAID_ELSEWHERE = {"protobuf": "BSD-3-Clause"}
"""Packages whose description names no licence, and what their licence file says."""


def licence_of(component: dict[str, Any]) -> str:
    """What the component says of its licence; "" where it says nothing."""
    said = []
    for choice in component.get("licenses", ()):
        licence = choice.get("license", {})
        said.append(choice.get("expression") or licence.get("id") or licence.get("name") or "")
    named = dict.fromkeys(name.strip().splitlines()[0] for name in said if name.strip())
    return "; ".join(named) or SAID_ELSEWHERE.get(component["name"], "")


def rows(bill: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(name, version, licence) of every component, by name."""
    return sorted((one["name"], one.get("version", ""), licence_of(one)) for one in bill["components"])


def main(source: Path, target: Path) -> int:
    listed = rows(json.loads(source.read_text("utf-8")))
    with target.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("name", "version", "licence"), *listed])
    silent = [name for name, _, licence in listed if not licence]
    print(f"{len(listed)} components are in {source}, their licences in {target}.")
    if silent:
        print(f"No licence is said by {', '.join(silent)}.")
    return int(bool(silent))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
