"""Linter for plain English: `python -m checks.plain_english [PATH …]` lists sentences that readers stumble over.

It reads docstrings, comments, Markdown pages, templates and the English side of catalogues. It knows patterns and not
meaning: a sentence that it passes can still be a riddle. `checks/test_plain_english.py` holds a limit for each folder.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

LONGEST_SENTENCE = 28
"""Words of a sentence. Write longer ones as two."""

BEGINNING = re.compile(
    r"^(?:[-*] |\d+\. )?(?:What|Who(?:ever|se)?|Whatever|Whether|How|Where|Those|Nobody|None of|One that"
    r"|So (?:many|much|long|far)|To \w+ (?:is|takes|costs)|The (?:same|other|one) (?:for|of|that)"
    r"|No (?:further|more))\b"
)
BETTER = {
    r"anew": "again, rebuild",
    r"mend(?:s|ed|ing)?": "fix",
    r"but for": "except",
    r"in the place of": "instead of",
    r"of late": "recently",
    r"let go of": "free",
    r"(?:is|are) told|tells": "reports, says",
    r"at hand": "cached, available",
    r"for ever": "forever, permanently",
    r"come by": "get",
    r"(?:is|are) asked for": "is requested",
    r"what is (?:said|asked|known|left|there)": "the noun of the thing",
    r"(?:is|are) said|nobody has": "the active voice",
    r"who(?:so)?ever": "anybody who, the reader, the role",
    r"hands? over to|gives? back": "passes, returns",
    r"goes on|go on where": "continues",
    r"in the end": "finally",
    r"in one breath|had it|have it put|on its part|as good as": "a plain phrase",
    r"a (?:third|quarter|fifth|sixth|seventh|eighth|tenth|twelfth|fourteenth) (?:less|more|of what)": "a number",
}
"""Words of other centuries, and what engineers write."""
WORDS = re.compile(rf"\b(?:{'|'.join(BETTER)})\b", re.IGNORECASE)
MEASUREMENT = re.compile(r"\b\d[\d.,]* ?(?:µs|microseconds|ms a|times as fast)|\btakes? a \w+ (?:less|longer)")


class Passage(msgspec.Struct, frozen=True):
    """Prose at a line of a file."""

    file: str
    line: int
    text: str


class Finding(msgspec.Struct, frozen=True):
    """A sentence that should be written again, and why."""

    passage: Passage
    reason: str
    sentence: str


def findings(passage: Passage) -> Iterator[Finding]:
    """Yield the sentences of a passage that match a pattern. Pure."""
    for sentence in re.split(r"(?<=[.!?:;])\s+", " ".join(passage.text.split())):
        if reason := _reason(sentence):
            yield Finding(passage, reason, sentence)


def _reason(sentence: str) -> str:
    length = len(sentence.split())
    if BEGINNING.match(sentence) and not sentence.endswith("?"):
        return "must begin with a verb or with the noun of the thing"
    if word := WORDS.search(sentence):
        [replacement] = [advice for pattern, advice in BETTER.items() if re.fullmatch(pattern, word[0], re.IGNORECASE)]
        return f"“{word[0]}”: write {replacement}"
    if MEASUREMENT.search(sentence):
        return "measurements belong to docs/explanation/performance.md"
    return f"{length} words: write two sentences" if length > LONGEST_SENTENCE else ""


def passages(file: Path) -> Iterator[Passage]:
    """Yield the prose of a file, by its kind. Other kinds have none."""
    if read := READERS.get(file.suffix):
        yield from (Passage(str(file), line, prose) for line, prose in read(file.read_text("utf-8")))


def _python(source: str) -> Iterator[tuple[int, str]]:
    yield from _docstrings(source)
    yield from _comments(source)


def _docstrings(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield statement.lineno, text


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield comments; those on neighbouring lines are one."""
    lines: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith(("#!", "# type", "# noqa", "# ruff")):
            if lines and token.start[0] != lines[-1][0] + 1:
                yield lines[0][0], " ".join(text for _, text in lines)
                lines = []
            lines.append((token.start[0], token.string.lstrip("# ")))
    if lines:
        yield lines[0][0], " ".join(text for _, text in lines)


def _page(markdown: str) -> Iterator[tuple[int, str]]:
    is_fenced = False
    for line, text in enumerate(markdown.splitlines(), 1):
        if text.startswith("```"):
            is_fenced = not is_fenced
        elif not is_fenced and text.strip() and not text.startswith(("|--", "#")):
            cells = text.strip("| ").split(" | ") if text.startswith("|") else [text]
            yield from ((line, re.sub(r"`[^`]*`", "X", cell)) for cell in cells)


def _matches(text: str, pattern: str) -> Iterator[tuple[int, str]]:
    for line, content in enumerate(text.splitlines(), 1):
        for match in re.finditer(pattern, content):
            yield line, next(group for group in match.groups() if group)


READERS: dict[str, Callable[[str], Iterator[tuple[int, str]]]] = {
    ".py": _python,
    ".md": _page,
    ".html": lambda text: _matches(text, r"_\(['\"](.+?)['\"]\)|>([^<>{}]{12,})<"),
    ".po": lambda text: _matches(text, r'^msgid "(.+)"$'),
}
"""Lines and prose of a file's text, by suffix."""


def tracked(paths: Sequence[str]) -> list[Path]:
    """Return the files below these paths that git tracks."""
    listed = subprocess.run(["git", "ls-files", "-z", "--", *paths], capture_output=True, text=True, check=True)
    return [Path(name) for name in listed.stdout.split("\0") if name and Path(name).is_file()]


if __name__ == "__main__":
    for file in tracked(sys.argv[1:] or ["."]):
        for passage in passages(file):
            for finding in findings(passage):
                print(f"{passage.file}:{passage.line}: {finding.reason}: {finding.sentence}")
