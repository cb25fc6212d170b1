"""A mutant replaces a function in all places that refer to it; a surviving mutant needs a reason."""

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from lab.mutation.mutant import Mutant
from lab.mutation.preloading import imports, unchanged
from lab.mutation.settings import accepted, groups
from lab.mutation.swapping import Imports, NotExchangeable, exchange, functions_of
from tests.support.folders import ROOT

SOURCE = """
from functools import lru_cache

def below(limit):
    return lambda number: number < limit

@lru_cache
def is_small(number):
    return number < 3

IS_CHILD = below(18)
"""


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "a_sample", raising=False)
    Path("a_sample.py").write_text(SOURCE)
    return importlib.import_module("a_sample")


def mutant(was: str, now: str) -> Mutant:
    return Mutant("a_sample.py", 1, (), False, was, now, SOURCE.replace(was, now))


def exchanged(changed: Mutant) -> None:
    exchange(changed, functions_of([changed.file])[str(Path(changed.file).resolve())])


def test_a_closure_and_a_decorated_function_get_other_code(sample: ModuleType) -> None:
    assert (sample.IS_CHILD(18), sample.is_small(3)) == (False, False)
    exchanged(mutant("number < limit", "number <= limit"))
    assert sample.IS_CHILD(18)
    sample.is_small.cache_clear()
    exchanged(mutant("number < 3", "number <= 3"))
    assert sample.is_small(3)


def test_what_has_other_functions_needs_a_new_process(sample: ModuleType) -> None:
    with pytest.raises(NotExchangeable):
        exchanged(mutant("lambda number: number < limit", "None"))


def test_what_ran_at_import_is_imported_changed(sample: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    del sys.modules["a_sample"]
    monkeypatch.setattr(sys, "meta_path", [Imports(mutant("below(18)", "below(19)")), *sys.meta_path])
    assert importlib.import_module("a_sample").IS_CHILD(18)


def test_modules_that_are_imported_before_the_forks_do_not_import_the_changed_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    of_tests = [f"tests.support.{path.stem}" for path in Path("tests/support").glob("*.py")]
    early = unchanged([*of_tests, "api", "schemas.supply", "msgspec"], "market/supply.py", imports())
    assert {"schemas.supply", "msgspec"} <= set(early)
    program = (
        f"import importlib, sys\nfor name in {early}: importlib.import_module(name)\n"
        "print('market.supply' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"


def test_a_survivor_needs_a_reason(tmp_path: Path) -> None:
    listed = tmp_path / "accepted.toml"
    listed.write_text('[[accepted]]\nfile = "a.py"\nreason = "equal"\nchanges = ["f: 1 => 2"]\n')
    with pytest.raises(ValueError, match="without a reason"):
        accepted(listed)


def test_every_file_of_the_core_belongs_to_one_group() -> None:
    listed = [file for group in groups() for file in group.files]
    assert len(listed) == len(set(listed))
    packages = [*Path(ROOT / "market").glob("*.py"), *Path(ROOT / "eventstore/aggregates").glob("*.py")]
    single = [f"schemas/reading/{name}.py" for name in ("as_sent", "decimals", "nesting", "shape")]
    single += ["eventstore/proof/merkle.py", "eventstore/replay.py"]
    assert set(listed) == {str(file.relative_to(ROOT)) for file in packages} | set(single)
