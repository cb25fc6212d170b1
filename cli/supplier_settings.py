"""Names of a supplier's settings in `supplier set` and `supplier show`, derived from `SupplierSettings`."""

from typing import Any

import click

from api.endpoints.supplier_settings import SUPPLIER_SETTINGS, URL, URLS
from cli.language import _

HELP = (
    "Change the settings of a supplier.\n\nThe settings apply to accounts of CODE on every server within a second: "
    + ", ".join(f"{name}={'|'.join(setting.words) or 'URL'}" for name, setting in SUPPLIER_SETTINGS.items())
    + ". A URL begins with s3://, gs://, az:// or file:///. NAME= without a value clears a setting."
)


def parsed_setting(text: str) -> tuple[str, Any]:
    """Return the field and the value in the log for NAME=VALUE. NAME= sets the default. Raises BadParameter."""
    name, sign, word = text.partition("=")
    if name not in SUPPLIER_SETTINGS:
        raise click.BadParameter(
            _(
                "{given!r}: there is no setting {name!r}, only {names}.",
                given=text,
                name=name,
                names=", ".join(SUPPLIER_SETTINGS),
            )
        )
    if not sign:
        raise click.BadParameter(
            _("{given!r} has no value: write {name}=VALUE, or {name}= to clear it.", given=text, name=name)
        )
    setting = SUPPLIER_SETTINGS[name]
    if not word:
        return setting.field, setting.default
    if not setting.words:
        if not URL.match(word):
            sentence = _("{given!r}: {name}= takes {urls}.", given=text, name=name, urls=URLS)
            raise click.BadParameter(sentence)
        return setting.field, word
    if word not in setting.words:
        words = ", ".join(f"{name}={allowed}" for allowed in setting.words)
        raise click.BadParameter(_("{given!r} is none of {words}.", given=text, words=words))
    return setting.field, setting.words[word]
