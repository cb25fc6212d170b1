"""A form that was refused, or whose session has ended, filled in with the typed values, so that users need not type
them again. Pure.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape

Fields = Mapping[str, Sequence[str]]
UNKEPT = frozenset({"author", "csrf", "form", "here", "password", "again", "former", "file"})
"""Fields that are not filled in again: tokens, passwords and files."""
SEEN = "seen"
"""Hidden field with the state that the page has shown. It stays, unless an error says that this state is outdated."""
_FIELD = re.compile(r"<input\b[^>]*>|<textarea\b[^>]*>.*?</textarea>|<select\b[^>]*>.*?</select>", re.DOTALL)
_NAME = re.compile(r'\bname="([^"]*)"')
_TYPE = re.compile(r'\btype="(hidden|password|file|checkbox|radio)"')


def refilled(page: str, action: str, fields: Fields, errors: Mapping[str, str], message: str = "") -> str | None:
    """Return the page with the form of this address filled in and unfolded; None if the page has no such form.

    `errors` are shown beside their fields, the message and errors of other fields above the form.
    """
    found = re.search(rf'<form\b[^>]*\baction="{re.escape(escape(action))}"[^>]*>(.*?)</form>', page, re.DOTALL)
    if found is None:
        return None
    shown = set()

    def filled(field: re.Match[str]) -> str:
        named = _NAME.search(field[0])
        name = named[1] if named else ""
        text = field[0]
        is_kept = name not in errors if name == SEEN else not _TYPE.search(text)
        if name in fields and name not in UNKEPT and fields[name] and is_kept:
            text = _with_value(text, fields[name][-1])
        if name in errors and name != SEEN:
            shown.add(name)
            text = text.replace(" ", f' aria-invalid="true" aria-errormessage="{escape(name)}-error" ', 1)
            text += f'<span class="error" role="alert" id="{escape(name)}-error">{escape(errors[name])}</span>'
        return text

    content = _FIELD.sub(filled, found[1])
    above = [message, *(text for name, text in errors.items() if name not in shown)]
    alerts = "".join(f'<p class="error" role="alert">{escape(text)}</p>' for text in above if text)
    before = _unfolded(page[: found.start(1)])
    return before + alerts + content + page[found.end(1) :]


def _with_value(field: str, value: str) -> str:
    if field.startswith("<input"):
        return re.sub(r'\svalue="[^"]*"', "", field)[:-1] + f' value="{escape(value)}">'
    if field.startswith("<textarea"):
        return f"{field[: field.index('>') + 1]}\n{escape(value)}</textarea>"
    return re.sub(r"<option([^>]*)>([^<]*)", _selecting(escape(value)), field)


def _selecting(value: str) -> Callable[[re.Match[str]], str]:
    def option(found: re.Match[str]) -> str:
        attributes = found[1].replace(" selected", "")
        named = re.search(r'value="([^"]*)"', attributes)
        is_chosen = (named[1] if named else found[2].strip()) == value
        return f"<option{attributes}{' selected' if is_chosen else ''}>{found[2]}"

    return option


def _unfolded(before: str) -> str:
    """Return the part of a page before a form, with the fold around the form opened."""
    start = before.rfind("<details")
    if start < 0 or "</details>" in before[start:] or before[start:].split(">")[0].endswith(" open"):
        return before
    return f"{before[:start]}<details open{before[start + len('<details') :]}"
