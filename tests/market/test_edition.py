"""The edition of the rules follows from their source, wherever they are installed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import market
from market.edition import PACKAGES, edition_of, sources

ROOT = Path(__file__).parents[2]
FILES = {"market/a.py": b"LIMIT = 1\n", "schemas/b.py": b"class B: ...\n"}


def test_every_source_of_rules_and_shapes_counts() -> None:
    named = {name for name, _ in sources()}
    assert named == {
        path.relative_to(ROOT).as_posix() for package in PACKAGES for path in (ROOT / package).rglob("*.py")
    }
    assert edition_of(sources()) == market.EDITION
    assert len(market.EDITION) == 16


@pytest.mark.parametrize(
    "other",
    [
        FILES | {"market/a.py": b"LIMIT = 2\n"},
        FILES | {"market/c.py": b""},
        {"market/a.py": FILES["market/a.py"]},
        {"market/a.py": FILES["market/a.py"], "schemas/c.py": FILES["schemas/b.py"]},
        {"market/a.py": FILES["schemas/b.py"], "schemas/b.py": FILES["market/a.py"]},
        {"market/a.py": FILES["market/a.py"] + FILES["schemas/b.py"], "schemas/b.py": b""},
    ],
)
def test_another_rule_makes_another_edition(other: dict[str, bytes]) -> None:
    assert edition_of(other.items()) != edition_of(FILES.items())


def test_kinds_of_line_ends_make_no_difference() -> None:
    assert edition_of((name, source.replace(b"\n", b"\r\n")) for name, source in FILES.items()) == edition_of(
        FILES.items()
    )


def installed_edition(folder: Path) -> str:
    code = "import market, sys; assert market.__file__.startswith(sys.argv[1]); print(market.EDITION)"
    command = [sys.executable, "-P", "-c", code, str(folder)]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env={"PYTHONPATH": str(folder), "PATH": ""}
    )
    return done.stdout.strip()


@pytest.mark.slow
def test_an_installed_copy_has_the_same_edition_until_a_rule_is_changed(tmp_path: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package)
    assert installed_edition(tmp_path) == market.EDITION
    rule = tmp_path / "market" / "periods.py"
    rule.write_text(rule.read_text() + "\n# another rule\n")
    assert installed_edition(tmp_path) != market.EDITION
