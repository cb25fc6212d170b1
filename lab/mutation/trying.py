"""pytest for mutants: only pure tests, the same examples each time, the most likely test first, one failure.

`Trial` is the plugin. It collects the tests of a group once; then each mutant gets a fork in which its functions are
exchanged, and the tests that reach them run, shortest first.
"""

import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import coverage
import pytest
from hypothesis import HealthCheck, Phase, settings

from lab.mutation.children import Children, Ended, limit
from lab.mutation.mutant import Mutant
from lab.mutation.swapping import (
    Imports,
    NotExchangeable,
    caches,
    clear_caches,
    codes_of,
    exchange,
    functions_of,
    name_of,
)

OPTIONS = ["-q", "-s", "--noconftest", "--tb=no", "--assert=plain", "-p", "no:cacheprovider", "--no-header"]
_OWN_FIXTURES = {"request", "monkeypatch", "tmp_path", "tmp_path_factory", "capsys", "recwarn", "caplog"}
"""Fixtures of pytest. A test with other fixtures starts a process or needs `conftest.py`, so it is not pure."""
NOT_EXCHANGEABLE = 4
"""Exit code of a fork in which functions cannot be exchanged."""
_TIMES, _SPARE_S = 10, 1.0
"""Limit of a test's CPU time: this multiple of its time without a change, plus this number of seconds."""

AT_IMPORT = "import"

TestsByFunction = dict[str, set[str]]
"""Tests by the function that they reach, `file:name`."""


def pytest_main(tests: Sequence[str], plugin: object) -> int:
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return int(pytest.main([*OPTIONS, *tests], plugins=[plugin]))


class Pure:
    """Plugin that selects the pure tests. Hypothesis tries the same examples each time, and does not shrink them."""

    def pytest_configure(self) -> None:
        settings.register_profile(
            "mutants",
            deadline=None,
            derandomize=True,
            database=None,
            max_examples=15,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        settings.load_profile("mutants")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if _is_pure(item)]


def _is_pure(item: pytest.Item) -> bool:
    fixtures = set(getattr(item, "fixturenames", ()))
    parameters = set(item.callspec.params) if hasattr(item, "callspec") else set()
    return fixtures <= _OWN_FIXTURES | parameters and item.get_closest_marker("slow") is None


class Recent:
    """The tests that have detected a change, the last one first: the same test often detects neighbouring changes."""

    def __init__(self) -> None:
        self._order: dict[str, int] = {}

    def detected(self, test: str) -> None:
        self._order[test] = len(self._order) and max(self._order.values()) + 1

    def rank(self, test: str) -> int:
        return -self._order.get(test, -1)

    def last_file(self) -> str:
        """Return the file of the test that detected last; "" before the first."""
        return max(self._order, key=self._order.__getitem__, default="").partition("::")[0]


class Trial(Pure):
    """Tries mutants whose functions can be exchanged. `report` gets each mutant's number and result."""

    def __init__(self, mutants: dict[int, Mutant], at_most: int, report: Callable[[int, Ended], None]) -> None:
        self._mutants = mutants
        self._files = {str(Path(mutant.file).resolve()): mutant.file for mutant in mutants.values()}
        self._coverage = coverage.Coverage(data_file=None, config_file=False, include=list(self._files))
        self._report = report
        self._children = Children(at_most, self._ended)
        self._recent = Recent()
        self._tests_of: TestsByFunction = {}
        self._seconds: dict[str, float] = {}
        self.to_import: list[int] = []
        """Numbers of the mutants that need a process of their own, which imports them."""

    def pytest_sessionstart(self) -> None:
        self._coverage.start()
        self._coverage.switch_context(AT_IMPORT)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._run_unchanged(session)
        self._tests_of = tests_by_function(self._coverage.get_data(), self._files)
        clear_caches(caches())
        functions = functions_of(sorted(self._files))
        for number, mutant in self._mutants.items():
            tests_reaching = self._tests_of.get(f"{mutant.file}:{'.'.join(mutant.function)}", set())
            tests = [item for item in session.items if item.nodeid in tests_reaching]
            if mutant.runs_at_import or not tests:
                if mutant.runs_at_import or AT_IMPORT in tests_reaching:
                    self.to_import.append(number)
                else:
                    self._report(number, Ended("unreached", ""))
                continue
            tests.sort(key=lambda item: (self._recent.rank(item.nodeid), self._seconds[item.nodeid]))
            originals = functions[str(Path(mutant.file).resolve())]

            def run(report: Callable[[str], None], mutant=mutant, tests=tests, originals=originals) -> int:  # type: ignore[no-untyped-def]
                try:
                    exchange(mutant, originals)
                except NotExchangeable:
                    return NOT_EXCHANGEABLE
                return _run_until_detected(session, tests, self._seconds, report)

            self._children.start(number, run)
        self._children.finish()
        return True

    def _run_unchanged(self, session: pytest.Session) -> None:
        """Run every test once in this process, to record the functions that it reaches and its CPU time."""
        cached = caches()
        for item in session.items:
            clear_caches(cached)  # otherwise only the first test would reach the functions that they call
            self._coverage.switch_context(item.nodeid)
            began = time.process_time()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            self._seconds[item.nodeid] = time.process_time() - began
            if session.testsfailed:
                raise session.Failed(f"{item.nodeid} fails without a change")
        self._coverage.stop()

    def _ended(self, number: int, ended: Ended) -> None:
        mutant = self._mutants[number]
        if ended.by:
            self._recent.detected(ended.by)
        needs_import = (
            ended.outcome == "survived" and "import" in self._tests_of[f"{mutant.file}:{'.'.join(mutant.function)}"]
        )
        if needs_import or ended.outcome == f"failed with {NOT_EXCHANGEABLE}":
            self.to_import.append(number)
        else:
            self._report(number, ended)


def tests_by_function(data: coverage.CoverageData, files: dict[str, str]) -> TestsByFunction:
    """Return the tests that ran a line of each function."""
    found: TestsByFunction = defaultdict(set)
    for path, file in files.items():
        by_line = data.contexts_by_lineno(path)
        for code in codes_of(compile(Path(path).read_text(), path, "exec")):
            lines = {line for _, _, line in code.co_lines()} - {None, 0, code.co_firstlineno}
            for line in lines or {code.co_firstlineno}:
                found[f"{file}:{name_of(code)}"].update(by_line.get(line or 0, ()))
    return found


def _run_until_detected(
    session: pytest.Session, tests: Sequence[pytest.Item], seconds: dict[str, float], report: Callable[[str], None]
) -> int:
    for item in tests:
        limit(seconds[item.nodeid] * _TIMES + _SPARE_S)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        if session.testsfailed:
            report(item.nodeid)
            return 1
    return 0


class ImportedMutant(Pure):
    """Plugin for a process of one mutant, which imports the mutant instead of its module."""

    def __init__(self, mutant: Mutant, recent: Recent, report: Callable[[str], None]) -> None:
        self._recent = recent
        self._report = report
        sys.meta_path.insert(0, Imports(mutant))
        limit(30)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        super().pytest_collection_modifyitems(items)
        items.sort(key=lambda item: self._recent.rank(item.nodeid))

    def pytest_runtest_logstart(self) -> None:
        limit(30)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._report(report.nodeid)


def run_imported(
    mutants: dict[int, Mutant], tests: Sequence[str], at_most: int, report: Callable[[int, Ended], None]
) -> None:
    """Import each mutant in a process of its own, forked from this one, and run the tests until one detects."""
    recent = Recent()

    def ended(number: int, result: Ended) -> None:
        if result.by:
            recent.detected(result.by)
        report(number, result)

    children = Children(at_most, ended)
    for number, mutant in mutants.items():

        def run(report: Callable[[str], None], mutant: Mutant = mutant) -> int:
            """Run the file whose test detected a change last, and then all files, since collecting all takes longer."""
            trial = ImportedMutant(mutant, recent, report)
            last_file = recent.last_file()
            return (last_file and pytest_main([last_file, "-x"], trial)) or pytest_main([*tests, "-x"], trial)

        children.start(number, run)
    children.finish()
