"""Put a mutant into a running process by replacing the code of functions, or into a process that has not imported it.

Functions are replaced wherever they are: in tables of rules, in closures, behind decorators. Code that runs at import
has left its results, so its mutants need a new process.
"""

import gc
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import _lru_cache_wrapper
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from lab.mutation.mutant import Mutant

HERE = Path.cwd()


class NotExchangeable(Exception):
    """The mutant has other functions than its original, or functions with other closure variables."""


def name_of(code: CodeType) -> str:
    """Return the function that the code belongs to, as a mutant names it: `ordered.holds`, also for comprehensions."""
    return ".".join(step for step in code.co_qualname.split(".") if not step.startswith("<"))


def functions_of(files: Sequence[str]) -> dict[str, list[FunctionType]]:
    """Return every function in this process that these files define, by file."""
    found: dict[str, list[FunctionType]] = {str(Path(file).resolve()): [] for file in files}
    for candidate in gc.get_objects():
        if type(candidate) is FunctionType and candidate.__code__.co_filename in found:
            found[candidate.__code__.co_filename].append(candidate)
    return found


def caches() -> list[Any]:
    """Return the project's functions with cached results, which would hide a changed function."""
    found = []
    for candidate in gc.get_objects():
        if isinstance(candidate, _lru_cache_wrapper):
            code = getattr(candidate.__wrapped__, "__code__", None)  # classes have none
            if code is not None and Path(code.co_filename).is_relative_to(HERE):
                found.append(candidate)
    return found


def clear_caches(functions: Iterable[Any]) -> None:
    for function in functions:
        function.cache_clear()


def exchange(mutant: Mutant, functions: Sequence[FunctionType]) -> None:
    """Replace the code of the file's functions with the mutant's. Raises NotExchangeable."""
    path = Path(mutant.file).resolve()
    old_codes = list(codes_of(compile(path.read_text(), str(path), "exec")))
    new_codes = list(codes_of(compile(mutant.source, str(path), "exec")))
    if [code.co_qualname for code in old_codes] != [code.co_qualname for code in new_codes]:
        raise NotExchangeable
    replacements = {old: new for old, new in zip(old_codes, new_codes, strict=True) if old != new}
    for function in functions:
        new = replacements.get(function.__code__)
        if new is None:
            continue
        if new.co_freevars != function.__code__.co_freevars:
            raise NotExchangeable
        function.__code__ = new


def codes_of(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and all that are defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_of(constant)


def module_of(file: str) -> str:
    return ".".join(Path(file).with_suffix("").parts).removesuffix(".__init__")


class Imports:
    """Import hook that loads the mutant instead of its module, which must not be imported yet."""

    def __init__(self, mutant: Mutant) -> None:
        self._module = module_of(mutant.file)
        self._mutant = mutant
        assert self._module not in sys.modules

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self._module:
            return None
        file = Path(self._mutant.file).resolve()
        within = [str(file.parent)] if file.name == "__init__.py" else None
        loader = _Loader(name, str(file), self._mutant.source)
        return importlib.util.spec_from_file_location(name, file, loader=loader, submodule_search_locations=within)


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self.path, "exec")
