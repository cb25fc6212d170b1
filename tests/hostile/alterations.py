"""Alterations of files: single bytes, parts, numbers and nesting, also inside compressed parts; and bombs."""

import io
import itertools
import json
import random
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import zstandard

_BOMB_BYTES = 1_300_000_000
_VALUES = 20_000_000
"""JSON values of a text that is as long as a reader allows, with `[],` or `[]` and a line end for each."""
_MIB = 1 << 20
_NUMBERS = (b"-1", b"0", b"400000000", b"1" * 30, b"1e400", b"null", b"[]", b'"x"')


def altered(content: bytes, rng: random.Random) -> bytes:
    """Return the bytes with one alteration."""
    at = rng.randrange(len(content) + 1)
    match rng.randrange(7):
        case 0:
            return (
                content[:at] + bytes(byte ^ 1 << rng.randrange(8) for byte in content[at : at + 1]) + content[at + 1 :]
            )
        case 1:
            return content[:at]
        case 2:
            return content[:at] + rng.randbytes(rng.randrange(1, 9)) + content[at:]
        case 3:
            return content[:at] + content[at + rng.randrange(1, 64) :]
        case 4:
            end = at + rng.randrange(1, 256)
            return content[:end] + content[at:end] + content[end:]
        case 5:
            digits = [place for place, byte in enumerate(content) if 48 <= byte < 58]
            place = rng.choice(digits or [at])
            return content[:place] + rng.choice(_NUMBERS) + content[place + 1 :]
        case _:
            return content[:at] + rng.choice((b"[", b'{"a":')) * 100_000 + content[at:]


def _of_zip(content: bytes, rng: random.Random) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as opened:
        name = rng.choice(opened.namelist())
        return _zip_with(content, name, [altered(opened.read(name), rng)])


def _of_zstd(content: bytes, rng: random.Random) -> bytes:
    inside = zstandard.ZstdDecompressor().decompressobj().decompress(content)
    return zstandard.ZstdCompressor(write_checksum=True).compress(altered(inside, rng))


_COMPRESSED: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "proof": _of_zip, "archive": _of_zip, "replay": _of_zstd,
}  # fmt: skip


def alterations(kind: str, content: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Yield the file with one alteration, `count` times: of its bytes, and of its compressed content."""
    rng = random.Random(seed)
    for number in range(count):
        alter = _COMPRESSED.get(kind, altered) if number % 2 else altered
        yield alter(content, rng)


def write_bombs(kind: str, content: bytes, file: Path) -> Iterator[Path]:
    """Write small files that become large ones into this file, one after the other."""
    match kind:
        case "proof" | "archive":
            with zipfile.ZipFile(io.BytesIO(content)) as opened:
                names = opened.namelist()
            for name in names:
                file.write_bytes(_zip_with(content, name, _filling(b" ", _BOMB_BYTES // 10)))
                yield file
            file.write_bytes(_zip_with_false_size(content, names[-1]))
            yield file
            for name, pieces in _of_many_values(content) if kind == "proof" else ():
                file.write_bytes(_zip_with(content, name, pieces))
                yield file
        case "certificate":
            with file.open("wb") as output:
                output.writelines(_of_values(content))
            yield file
        case "export" | "replay":
            for filling in (b" ", b"[", b"\n"):
                with file.open("wb") as output, zstandard.ZstdCompressor(level=1).stream_writer(output) as writer:
                    for piece in _filling(filling, _BOMB_BYTES):
                        writer.write(piece)
                yield file
            lines = zstandard.ZstdDecompressor().decompressobj().decompress(content).split(b'"state":{', 1)
            with file.open("wb") as output, zstandard.ZstdCompressor(level=1).stream_writer(output) as writer:
                writer.write(lines[0] + b'"state":')
                for piece in _of_values(b"{" + lines[1]):
                    writer.write(piece)
            yield file
        case _:
            file.write_bytes(content)
            with file.open("ab") as sparse:
                sparse.truncate(_BOMB_BYTES)
            yield file


def _of_many_values(content: bytes) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield members of a proof that take much more memory as values than as texts, each with its name."""
    with zipfile.ZipFile(io.BytesIO(content)) as opened:
        index, events = opened.read("proof.json"), opened.read("events.ndjson")
    yield "proof.json", _of_values(index)
    yield "events.ndjson", itertools.chain([events], _filling(b"[]\n", 3 * _VALUES))
    parsed = json.loads(index)
    [*_, signed] = parsed["checkpoints"].values()
    parsed["checkpoints"] = {"SIZE": signed} | parsed["checkpoints"]
    before, entry, after = json.dumps(parsed).partition(f'"SIZE": {json.dumps(signed)}')
    yield (
        "proof.json",
        iter([f"{before}{','.join(entry.replace('SIZE', str(n)) for n in range(10**6))}{after}".encode()]),
    )


def _of_values(content: bytes) -> Iterator[bytes]:
    """Yield the JSON object with a member that holds as many values as a reader allows by their length."""
    return itertools.chain([b'{"x":['], _filling(b"[],", 3 * _VALUES), [b"[]],", content.lstrip()[1:]])


def _filling(pattern: bytes, size: int) -> Iterator[bytes]:
    return (pattern * (_MIB // len(pattern)) for _ in range(size // _MIB))


def _zip_with_false_size(content: bytes, changed: str) -> bytes:
    """Return the zip with a member that is larger than the zip says: the member's bytes, and blanks after them."""
    written = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as opened,
        zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target,
    ):
        for name in opened.namelist():
            with target.open(name, "w") as member:
                member.write(opened.read(name))
                if name == changed:
                    for piece in _filling(b" ", _BOMB_BYTES):
                        member.write(piece)
            entry = target.getinfo(name)
            entry.file_size, entry.CRC = opened.getinfo(name).file_size, opened.getinfo(name).CRC
    return written.getvalue()


def _zip_with(content: bytes, changed: str, pieces: Iterator[bytes] | list[bytes]) -> bytes:
    """Return the zip with a member that consists of these pieces."""
    written = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as opened,
        zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target,
    ):
        for name in opened.namelist():
            with target.open(name, "w", force_zip64=True) as member:
                for piece in pieces if name == changed else [opened.read(name)]:
                    member.write(piece)
    return written.getvalue()
