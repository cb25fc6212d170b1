"""The parsed sources, each parsed once for all checks that read them."""

import ast
from functools import cache
from pathlib import Path


@cache
def parsed(file: Path) -> ast.Module:
    """The syntax tree of a file, which nobody changes."""
    return ast.parse(file.read_text())


@cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    """All of its nodes."""
    return tuple(ast.walk(parsed(file)))
