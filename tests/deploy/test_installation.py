"""The page on installation: its files and verbs exist, and its keys and passwords are valid."""

import re
import subprocess
from pathlib import Path

from cli.service.settings import Settings
from cli.verbs import VERBS

ROOT = Path(__file__).parent.parent.parent
CHAPTER = (ROOT / "docs" / "how-to" / "install.md").read_text()
BLOCKS = re.findall(r"^```text\n(.*?)^```", CHAPTER, re.M | re.S)


def test_every_command_is_one_that_a_shell_understands() -> None:
    for block in BLOCKS:
        read = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)
        assert read.returncode == 0, read.stderr


def test_named_files_and_verbs_exist() -> None:
    text = "\n".join(BLOCKS)
    for name in re.findall(r"(?<![\w/])(?:deploy/(?:systemd|kubernetes)|requirements)[\w./*-]*", text):
        assert list(ROOT.glob(name)), name
    verbs = re.findall(r"\bimportledger ([a-z-]+)", re.sub(r"namespace importledger .*", "", text))
    assert {verb for verb in verbs if verb not in ("create", "get", "exec", "wait", "rollout")} <= VERBS.keys()
    for unit in re.findall(r"importledger-(api|relay|worker|migrate)\b", text):
        assert (ROOT / "deploy" / "systemd" / f"importledger-{unit}.service").exists()


def test_the_keys_that_it_creates_are_valid_and_in_a_folder_of_their_owner(tmp_path: Path) -> None:
    [making] = [block for block in BLOCKS if "> secrets/sealing_key" in block]
    subprocess.run(["bash", "-euo", "pipefail", "-c", making], cwd=tmp_path, check=True)
    keys = {
        "IMPORTLEDGER_TOKEN_KEY_FILE": str(tmp_path / "secrets" / "token_key"),
        "IMPORTLEDGER_REQUEST_KEY_FILE": str(tmp_path / "secrets" / "request_key"),
        "IMPORTLEDGER_SEALING_KEY_FILE": str(tmp_path / "secrets" / "sealing_key"),
    }
    assert Settings.from_environment(keys).sealing_key
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700


def test_the_passwords_that_it_creates_for_compose_need_no_encoding(tmp_path: Path) -> None:
    [block] = [block for block in BLOCKS if "POSTGRES_PASSWORD" in block]
    making = block.partition("chmod")[0]
    subprocess.run(["bash", "-euo", "pipefail", "-c", making], cwd=tmp_path, check=True)
    lines = (tmp_path / ".env").read_text().splitlines()
    assert [bool(re.fullmatch(r"(POSTGRES|API|WORKER|RELAY|REDIS)_PASSWORD=[0-9a-f]{48}", line)) for line in lines] == [
        True
    ] * 5
