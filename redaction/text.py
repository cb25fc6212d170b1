"""Escaping and redaction of text for logs and terminals: secrets, addresses, and characters that deceive a reader.

`escaped` escapes text from importers for a terminal. `cleaned` also redacts, and is applied to all log lines.
"""

import contextlib
import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

MAX_CLEANED = 20_000
"""Characters of a text in a log. Longer texts are cut."""
_ALLOWED = {"\n", "\t"}
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Control characters, bidirectional marks, characters without width, line and paragraph separators."""

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"(?i)(authorization['\"\\]{0,3}\s{0,3}[:=,]\s{0,3}b?['\"\\]{0,3})"
            r"(?:[a-z]{1,16}\s{1,3})?[^\s'\"\\,;)\]}]+"
        ),
        r"\1[secret]",
    ),
    (
        re.compile(
            r"(?i)((?:password|passwd|pwd|secret|token|token_key|sealing_key|api_?key|secretkey|refresh_?token)"
            r"['\"\\]{0,3}\s{0,2}[:=]\s{0,2}b?['\"\\]{0,3})[^\s'\"\\,;)&\]}]+"
        ),
        r"\1[secret]",
    ),
    (re.compile(r"(://[^\s:/@'\"\\]{0,128}):[^\s'\"\\]{1,512}@"), r"\1:[secret]@"),
    (re.compile(r"ilk_[A-Za-z0-9_-]+"), "[key]"),
    (re.compile(r"eyJ[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*){1,4}"), "[token]"),
    (re.compile(r"(?i)\b(token|bearer|jwt|basic) [A-Za-z0-9._~+/=-]{16,}"), r"\1 [secret]"),
    (re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}"), "[e-mail]"),
)
"""Patterns of secrets, with their replacements. Lengths are bounded, so that hostile text does not take long."""
_ACCOUNT = re.compile(
    r"(?ia)(?<![A-Z0-9])[A-Z]{2}[0-9]{2}(?:[A-Z0-9]{11,30}|(?:[ -][A-Z0-9]{4}){2,7}(?:[ -][A-Z0-9]{1,4})?)(?![A-Z0-9])"
)
_PLAIN = re.compile(r"[A-Za-z0-9-]{0,13}\Z")
"""Text that is too short, and has too few signs, for all patterns of secrets, such as most codes and account numbers.
"""

_OURS = "api cli console redaction embedded eventstore market projections system schemas telemetry workers"
OURS = frozenset(_OURS.split())
"""Packages whose error messages are safe to log."""
_WITHOUT_VALUES = ("25", "40", "42501", "42703", "42P01", "53", "55", "57", "58")
"""Prefixes of SQLSTATEs whose messages name only roles, tables and limits."""
_QUOTED = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|`[^`\n]*`")


def counted(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun: "1 event", "2 events". `plural` is the plural unless it is the noun with an s."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def escaped(text: object, *, allowed: frozenset[str] | set[str] = frozenset()) -> str:
    r"""Escape invisible and control characters as \uXXXX.

    In JSON the escaped text means the same. Characters in `allowed` are not escaped.
    """
    plain = str(text)
    if plain.isascii() and plain.isprintable():
        return plain
    return "".join(_escaped(c) if c not in allowed and unicodedata.category(c) in _HIDDEN else c for c in plain)


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[n : n + 2].hex()}" for n in range(0, len(units), 2))


def escaped_lines(text: object) -> str:
    """Escape a text, and keep its line breaks and tabs."""
    return escaped(text, allowed=_ALLOWED)


def cleaned(text: str) -> str:
    """Remove keys, tokens, passwords, e-mail addresses and IBANs, and escape like `escaped_lines`."""
    if _PLAIN.match(text):
        return text
    if len(text) > MAX_CLEANED:
        text = text[:MAX_CLEANED] + " […]"
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return escaped_lines(_ACCOUNT.sub(_without_iban, text))


def message_of(error: BaseException) -> str:
    """Describe an error for a log: its class, and its message without quoted values.

    Quoted values are removed because libraries quote values of payloads, rows and parameters, and the database adds
    rows after the first line. Errors of this project contain only ids, and messages of Postgres about rights, names,
    disk space and time-outs contain no values.
    """
    kind, sentence = type(error).__name__, str(error).strip()
    diagnosis = getattr(error, "diag", None)
    if getattr(error, "sqlstate", None) and diagnosis is not None:
        names = (diagnosis.schema_name, diagnosis.table_name, diagnosis.column_name, diagnosis.constraint_name)
        state = str(error.sqlstate)  # type: ignore[attr-defined]
        if state.startswith(_WITHOUT_VALUES) and diagnosis.message_primary:
            return f"{kind}: {cleaned(diagnosis.message_primary)}"
        return " ".join((kind, state, *(name for name in names if name)))
    if isinstance(error, KeyError | UnicodeError):
        return kind
    if type(error).__module__.split(".", 1)[0] not in OURS:
        sentence = _QUOTED.sub("[…]", sentence.split("\n", 1)[0])
    return f"{kind}: {cleaned(sentence)}" if sentence else kind


def cleaned_value(value: Any) -> Any:
    """Apply `cleaned` to all texts in a value of a log line, including names."""
    match value:
        case str():
            return cleaned(value)
        case bytes():
            return cleaned(value.decode("utf-8", "replace"))
        case Mapping():
            return {cleaned_value(name): cleaned_value(inner) for name, inner in value.items()}
        case list() | tuple() | set() | frozenset():
            return [cleaned_value(inner) for inner in value]
        case BaseException():
            return message_of(value)
        case bool() | int() | float() | None:
            return value
        case _:
            return cleaned(str(value))


def cleaned_line(line: str) -> str:
    """Apply `cleaned` to a line that another program prints. JSON stays JSON."""
    with contextlib.suppress(ValueError):
        parsed = json.loads(line)
        if isinstance(parsed, dict):
            return json.dumps(cleaned_value(parsed))
    return cleaned(line)


def _without_iban(match: re.Match[str]) -> str:
    """Redact an IBAN. Text in small letters, such as a digest, counts as one only if its check digits are right."""
    text = match.group()
    if text.upper() == text:
        return "[iban]"
    plain = re.sub(r"[ -]", "", text)
    number = "".join(str(int(character, 36)) for character in plain[4:] + plain[:4])
    return "[iban]" if int(number) % 97 == 1 else text
