"""Names of a supplier's settings in `supplier set` and `supplier show`, derived from `SupplierSettings`."""

from typing import Any

import click

from api.endpoints.supplier_settings import SUPPLIER_SETTINGS, URL, URLS

HELP = (
    "Change the settings of a supplier.\n\nThe settings apply to accounts of CODE on every server within a second: "
    + ", ".join(f"{name}={'|'.join(setting.words) or 'URL'}" for name, setting in SUPPLIER_SETTINGS.items())
    + ". A URL begins with s3://, gs://, az:// or file:///. NAME= without a value clears a setting."
)


def parsed_setting(text: str) -> tuple[str, Any]:
    """Return the field and the value in the log for NAME=VALUE. NAME= sets the default. Raises BadParameter."""
    name, sign, word = text.partition("=")
    if name not in SUPPLIER_SETTINGS:
        raise click.BadParameter(f"{text!r}: there is no setting {name!r}, only {', '.join(SUPPLIER_SETTINGS)}.")
    if not sign:
        raise click.BadParameter(f"{text!r} has no value: write {name}=VALUE, or {name}= to clear it.")
    setting = SUPPLIER_SETTINGS[name]
    if not word:
        return setting.field, setting.default
    if not setting.words:
        if not URL.match(word):
            raise click.BadParameter(f"{text!r}: {name}= takes {URLS}.")
        return setting.field, word
    if word not in setting.words:
        raise click.BadParameter(f"{text!r} is none of {', '.join(f'{name}={allowed}' for allowed in setting.words)}.")
    return setting.field, setting.words[word]
