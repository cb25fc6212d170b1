"""Language of all sentences: English, or German from `german.yaml` if the environment asks for it."""

import functools
import gettext
import os
from pathlib import Path
from typing import Any


def is_german() -> bool:
    """Return True if the environment asks for German, as POSIX says: LC_ALL, else LC_MESSAGES, else LANG."""
    names = (os.environ.get(name, "") for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return next(filter(None, names), "").startswith("de")


def _(text: str, /, **values: Any) -> str:
    """Return a text in the user's language. `text` is English, with the names of `values` in braces."""
    found = _german().get(text, text) if is_german() else text
    return found.format(**values) if values else found


def translatable(text: str) -> str:
    """Return the text unchanged. Marks a constant that `_` or `counted` translates when it is shown."""
    return text


def translate_click() -> None:
    """Translate click's own texts, which click looks up through the standard library's gettext."""
    gettext.dgettext = lambda domain, message: _(message)
    gettext.dngettext = lambda domain, msgid1, msgid2, n: _(msgid1 if n == 1 else msgid2)


@functools.cache
def _german() -> dict[str, str]:
    """Return the German texts by their English texts."""
    import yaml  # imported here: verbs in English need no YAML

    content = Path(__file__).with_name("german.yaml").read_text(encoding="utf-8")
    texts: dict[str, str] = yaml.load(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe
    return texts
