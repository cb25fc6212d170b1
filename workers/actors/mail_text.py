"""Texts of e-mails to customers, in German and in English. Pure."""

import re
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import parseaddr
from unicodedata import category

import msgspec

from schemas.account import Account

MAX_NAME = 60
"""Characters of a name. The standard library drops the quotes of a name that needs two header lines."""
MAX_NUMBER = 100
"""Characters of an account number."""
_MARKS = " .,'’-&/()+_#"
_DOT_IN_A_DOMAIN = re.compile(r"\.(?=[^\W\d])")


class Recipient(msgspec.Struct, frozen=True):
    """Name and address of the customer who gets a message."""

    name: str
    email: str


_SUBJECT = {"de": "Ihr Energiekonto ist umgezogen", "en": "Your energy account has moved"}
_TEXT = {
    "de": """Guten Tag {name},

Ihr Energiekonto ist auf unser neues System umgezogen. Ihre Verträge, Preise, Zählerstände und Guthaben sind
unverändert, und Sie müssen nichts tun.

    Ihre neue Kontonummer: {account_number}
    Ihre bisherige Nummer: {external_account_number}

Ein bestehendes Lastschriftmandat gilt weiter. Wenn Sie selbst überweisen, geben Sie bitte künftig die neue
Kontonummer an.

Freundliche Grüße
Ihr Kundenservice
""",
    "en": """Hello {name},

your energy account has moved to our new system. Your contracts, prices, meter readings and balances are unchanged,
and there is nothing you need to do.

    Your new account number: {account_number}
    Your previous number:    {external_account_number}

An existing direct debit mandate stays valid. If you pay by bank transfer, please state the new account number from
now on.

Kind regards
Your customer service
""",
}


def recipient_of(account: Account) -> Recipient | None:
    """Return name and address of the first customer with an e-mail address; None if no customer has one."""
    for customer in account.customers:
        if customer.email:
            name = " ".join(part for part in (customer.given_name, customer.family_name) if part)
            return Recipient(name, customer.email)
    return None


def message_about(
    account: Account, recipient: Recipient, *, account_number: str, language: str, sender: str, message_id: str
) -> EmailMessage:
    """Build the message.

    `sender` is an address. From `message_id`, mail programs recognise a second copy of a message.
    """
    message = EmailMessage()
    message["Subject"] = _SUBJECT[language]
    message["From"] = wire_address(*parseaddr(sender))
    message["To"] = wire_address(without_links(recipient.name), recipient.email)
    message["Message-ID"] = message_id
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(
        _TEXT[language].format(
            name=without_links(recipient.name),
            account_number=account_number,
            external_account_number=without_links(account.external_account_number, MAX_NUMBER),
        ),
        cte="quoted-printable",  # every mail server accepts this encoding
    )
    message["Content-Language"] = language  # set these fields last, since set_content removes them
    return message


def test_message(email: str, *, subject: str, text: str, sender: str) -> EmailMessage:
    """Build a test message to a user. Raises ValueError for an address that no server can read."""
    message = EmailMessage()
    message["Subject"] = subject
    message["From"] = wire_address(*parseaddr(sender))
    message["To"] = wire_address("", email)
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(text, cte="quoted-printable")
    return message


def wire_address(name: str, email: str) -> Address:
    """Return an address as it is sent to mail servers: an internationalised domain in its ASCII form (IDNA 2008).

    The part before the @ is unchanged. Raises ValueError for a domain without an ASCII form.
    """
    local, _, domain = email.rpartition("@")
    return Address(" ".join(name.split()), local, domain if domain.isascii() else _ascii_domain(domain))


def _ascii_domain(domain: str) -> str:
    from email_validator import validate_email  # imported here: the library is large, and seldom needed

    ascii_domain = validate_email(f"x@{domain}", check_deliverability=False).ascii_domain
    assert isinstance(ascii_domain, str)
    return ascii_domain


def without_links(text: str, max_length: int = MAX_NAME) -> str:
    """Return an importer's text on one line, without quotes and parts that mail programs show as links. Pure."""
    letters = "".join(letter if category(letter)[0] in "LMN" or letter in _MARKS else " " for letter in text)
    return " ".join(_DOT_IN_A_DOMAIN.sub(". ", letters).split())[:max_length].rstrip()
