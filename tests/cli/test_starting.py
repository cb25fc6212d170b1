"""Verbs and roles import only what they need, so that they start quickly."""

import json
import subprocess
import sys

import pytest

from system.hidden_imports import hiding

JUDGING = {"phonenumbers", "email_validator", "stdnum", "pydoc"}
ALWAYS = JUDGING | {"rich", "httpx", "opentelemetry", "graphql", "authlib", "joserfc"}
SELDOM = {
    "cli.main": {"babel", "rich", "psycopg", "cryptography", "httpx", "starlette", "redis"},
    "cli.service.roles": ALWAYS | {"starlette", "redis", "multiprocessing"},
    "cli.service.working": ALWAYS | {"starlette", "multiprocessing"},
    "cli.serving": ALWAYS | {"redis"},
}
"""Libraries that the file of a role does not import at its start."""


@pytest.mark.parametrize("file", SELDOM)
def test_a_role_reads_no_library_that_it_seldom_needs(file: str) -> None:
    """A start also searches no list for the packages of the service."""
    script = f"import json, sys, {file}; print(json.dumps([name for name in sys.modules if '.' not in name]))"
    read = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    modules = set(json.loads(read.stdout))
    assert (SELDOM[file] & modules, [name for name in modules if name.startswith("__editable__")]) == (set(), [])


def test_a_library_is_imported_without_one_that_it_needs_seldom() -> None:
    script = (
        "import sys\nfrom system.hidden_imports import hiding\n"
        "with hiding('rich'):\n    import structlog.dev\n"
        "assert 'rich' not in sys.modules\nimport rich.pretty\n"
        "with hiding('rich'):\n    import rich.text\n"
        "assert sys.modules['rich'] is rich\nprint(structlog.dev.rich)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("None\n", "")


def test_a_hidden_library_is_shown_again_when_the_block_fails() -> None:
    with pytest.raises(ZeroDivisionError), hiding("no_such_library"):
        raise ZeroDivisionError
    assert "no_such_library" not in sys.modules


def test_a_role_is_loaded_and_tuned_without_searching_for_garbage() -> None:
    script = (
        "import gc, sys\nfrom cli.main import run\nfrom system.interpreter import tune_interpreter\n"
        "def searched():\n    return [generation['collections'] for generation in gc.get_stats()]\n"
        "sys.argv, before = ['importledger', '--version'], searched()\n"
        "try:\n    run()\nfinally:\n    assert 'babel' not in sys.modules\n"
        "    import cli.serving, cli.service.working\n    tune_interpreter()\n"
        "    assert searched() == before, searched()"
    )
    subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
