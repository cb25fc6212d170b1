"""Makes a dictionary for payloads (`eventstore/log/compression.py`), and says what it saves.

    python -m bench.payload_dictionary               what the service's dictionary saves
    python -m bench.payload_dictionary FILE NUMBER   makes another one, in a new file

It learns names, order and punctuation from accounts and records of the samples that the service comes with, written
without blanks and with them, as most clients do. Every letter and digit of their values is drawn by chance first, but
for the words that the contract itself lists and the form of a moment: nothing of anybody is in it.
"""

import argparse
import json
import random
import re
import string
import time
import typing
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from bench.load import bodies
from eventstore.log.compression import DICTIONARY_NUMBER, compressed, decompressed
from importledger_client.book import book
from schemas.account import WrappedAccount
from schemas.base import Wire

BYTES = 16 * 1024
ACCOUNTS, RECORDS = 300, 20
SEED = 2
"""Of a few, the one whose dictionary saves most."""
EXAMPLES = sorted((Path(__file__).parents[1] / "api" / "examples").glob("*.json"))
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d))?")


def words_of(wire_type: Any) -> set[str]:
    """The words that a shape lists: all that a field may say."""
    seen: list[Any] = []

    def below(hint: Any) -> Iterator[str]:
        if hint in seen:
            return
        seen.append(hint)
        if isinstance(hint, type) and issubclass(hint, Enum):
            yield from (str(one.value) for one in hint)
        elif isinstance(hint, type) and issubclass(hint, Wire):
            for field in typing.get_type_hints(hint, include_extras=True).values():
                yield from below(field)
        elif typing.get_origin(hint) is typing.Literal:
            yield from map(str, typing.get_args(hint))
        else:
            for part in typing.get_args(hint):
                yield from below(part)

    return set(below(wire_type))


def by_chance(value: Any, chance: random.Random, kept: set[str]) -> Any:
    """The same with other letters and digits: names, lengths and punctuation stay, and words of the contract."""
    match value:
        case dict():
            return {name: by_chance(one, chance, kept) for name, one in value.items()}
        case list():
            return [by_chance(one, chance, kept) for one in value]
        case str() if value in kept:
            return value
        case str() if _MOMENT.fullmatch(value):
            return re.sub(r"\d", lambda digit: _like(digit[0], chance), value)
        case str():
            return "".join(_like(letter, chance) for letter in value)
        case bool() | None:
            return value
        case int():
            return chance.randrange(10 ** len(str(abs(value))))
        case _:  # a float: with as many digits after the point
            return round(chance.random() * 10 ** len(str(int(abs(value)))), len(str(value).partition(".")[2]))


def _like(letter: str, chance: random.Random) -> str:
    for kind, others in (
        (str.isdigit, string.digits),
        (str.isupper, string.ascii_uppercase),
        (str.isalpha, string.ascii_lowercase),
    ):
        if kind(letter):
            return chance.choice(others)
    return letter


def samples() -> list[bytes]:
    """What is learned from: accounts, and the examples of records, in both spellings."""
    chance, kept = random.Random(SEED), words_of(WrappedAccount)
    values = [msgspec.json.decode(entry.body) for entry in book("SUPPLIER", ACCOUNTS, seed=99)]
    examples = [json.loads(file.read_text("utf-8")) for file in EXAMPLES]
    values += examples * RECORDS
    forms: tuple[Callable[[Any], bytes], ...] = (msgspec.json.encode, _spaced)
    return [forms[number % 2](by_chance(value, chance, kept)) for number, value in enumerate(values)]


def _spaced(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def said(name: str, some: list[bytes]) -> str:
    """How many bytes these have, and how long both ways take."""
    before = [zstandard.ZstdCompressor(level=1).compress(body) for body in some]
    contents = [compressed(body) for body in some]
    took = [_least_us(lambda: [compressed(body) for body in some], len(some))]
    took += [_least_us(lambda: [decompressed(content) for content in contents], len(some))]
    mean = [sum(map(len, ones)) / len(ones) for ones in (some, before, contents)]
    size = f"{mean[0]:,.0f} bytes, {mean[1]:,.0f} without it, {mean[2]:,.0f} with"
    return f"{name}: {size}; {took[0]:.1f} µs to compress, {took[1]:.1f} to decompress"


def _least_us(work: Callable[[], Any], number: int) -> float:
    took = []
    for _ in range(7):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return min(took) / number * 1e6


def make(file: Path, number: int) -> None:
    """Raises ValueError for the service's own number, whose file never changes, FileExistsError for a file there is."""
    if number == DICTIONARY_NUMBER:
        raise ValueError(f"{number} is the service's, and what was compressed with it needs it as it is")
    learned: list[bytes | bytearray | memoryview] = [*samples()]
    content = zstandard.train_dictionary(BYTES, learned, level=1, dict_id=number).as_bytes()
    with file.open("xb") as output:
        output.write(content)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.payload_dictionary", description=__doc__)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("number", nargs="?", type=int)
    options = parser.parse_args()
    if options.file is not None:
        if options.number is None:
            parser.error("a dictionary needs a number")
        try:
            make(options.file, options.number)
        except (OSError, ValueError) as error:
            parser.error(str(error))
        return
    accounts = [body for body, _ in bodies("NORDWIND")]
    spaced = [_spaced(msgspec.json.decode(body)) for body in accounts]
    examples = [_spaced(json.loads(file.read_text("utf-8"))) for file in EXAMPLES]
    for name, some in (("accounts", accounts), ("with blanks", spaced), ("examples of records", examples)):
        print(said(name, some))


if __name__ == "__main__":
    main()
