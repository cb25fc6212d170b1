"""Write the list of licences from a CycloneDX bill of materials: `licences.py SBOM.json LICENCES.csv`.

Exit code 1 if a component has no licence: look it up and add it below.
"""

import csv
import json
import sys
from pathlib import Path
from typing import Any

KNOWN_LICENCES = {"protobuf": "BSD-3-Clause"}
"""Licences of packages whose metadata names none, copied by hand from their licence files."""


def licence_of(component: dict[str, Any]) -> str:
    """Return the licence of the component; "" if it is unknown."""
    licences = []
    for choice in component.get("licenses", ()):
        licence = choice.get("license", {})
        licences.append(choice.get("expression") or licence.get("id") or licence.get("name") or "")
    named = dict.fromkeys(name.strip().splitlines()[0] for name in licences if name.strip())
    return "; ".join(named) or KNOWN_LICENCES.get(component["name"], "")


def rows(bill: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return (name, version, licence) of every component, sorted by name."""
    return sorted(
        (component["name"], component.get("version", ""), licence_of(component)) for component in bill["components"]
    )


def main(source: Path, target: Path) -> int:
    listed = rows(json.loads(source.read_text("utf-8")))
    with target.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("name", "version", "licence"), *listed])
    unknown = [name for name, _, licence in listed if not licence]
    print(f"{len(listed)} components are in {source}, their licences in {target}.")
    if unknown:
        print(f"No licence is known for {', '.join(unknown)}.")
    return int(bool(unknown))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
