"""Build the verifier for auditors: `build.py FOLDER` writes importledger-verify.pyz, its wheel and SHA256SUMS.

The sources are `verifier.py` and `sample_verifier.py` in `eventstore/proof/`, which the ledger itself uses. The same
sources give the same bytes on every machine: the digest of the .pyz is in docs/how-to/check-a-proof.md.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = HERE.parent.parent / "eventstore" / "proof"
MODULES = {"importledger_verify.py": "verifier.py", "importledger_verify_sample.py": "sample_verifier.py"}
"""Sources of the modules, by their names outside of the ledger."""
ZIPAPP = "importledger-verify.pyz"
_MAIN = "import sys\n\nimport importledger_verify_sample\n\nsys.exit(importledger_verify_sample.run())\n"


def module(name: str) -> str:
    """Return the content of a module, which imports the other one by its name outside of the ledger."""
    text = (SOURCES / MODULES[name]).read_text("utf-8")
    return text.replace("from eventstore.proof.verifier import", "from importledger_verify import")


def build_zipapp(folder: Path) -> Path:
    """Write the zipapp, the same bytes for the same source, and return its path."""
    target = folder / ZIPAPP
    with target.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w") as archive:
            for name, text in (("__main__.py", _MAIN), *((name, module(name)) for name in MODULES)):
                archive.writestr(zipfile.ZipInfo(name), text)
    target.chmod(0o755)
    return target


def build_wheel(folder: Path) -> Path:
    """Build the wheel and return its path."""
    with tempfile.TemporaryDirectory() as sources:
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(HERE / name, sources)
        for name in MODULES:
            Path(sources, name).write_text(module(name), "utf-8")
        options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
        subprocess.run([sys.executable, "-m", "pip", "wheel", *options, sources], check=True)
    [wheel] = folder.glob("importledger_verify-*.whl")
    return wheel


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    files = [build_zipapp(folder), build_wheel(folder)]
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (folder / "importledger-verify.SHA256SUMS").write_text("".join(lines))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
