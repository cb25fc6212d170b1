"""Files of other projects that the console loads are complete and unmodified."""

import hashlib
from pathlib import Path

import console

VENDOR = Path(console.__file__).parent / "vendor"


def test_vendored_files_are_unmodified() -> None:
    lines = (VENDOR / "SHA256SUMS").read_text().splitlines()
    present = {file.relative_to(VENDOR).as_posix() for file in VENDOR.glob("*/*")}
    assert {line.split("  ", 1)[1] for line in lines} == present
    for line in lines:
        digest, name = line.split("  ", 1)
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest, name


def test_each_has_its_licence() -> None:
    for folder in VENDOR.iterdir():
        assert folder.is_file() or (folder / "LICENSE").exists()
