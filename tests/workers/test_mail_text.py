"""What a customer is told, in both languages, and to whom it goes."""

import pytest

from schemas.account import Account
from schemas.submission import read_submission
from tests.support.make import an_account, changed, encoded
from workers.mail_text import Recipient, message_about, on_the_wire, recipient_of


def account(email: str = "erika@example.com", **name: str) -> Account:
    sent = changed(an_account(), email, "customers", 0, "email")
    sent["customers"][0] |= name
    return read_submission(encoded(sent)).account


@pytest.mark.parametrize(("language", "subject"), [("de", "Ihr Energiekonto"), ("en", "Your energy account")])
def test_the_message_names_both_numbers_in_its_language(language: str, subject: str) -> None:
    told = account()
    message = message_about(
        told,
        Recipient("Erika", "erika@example.com"),
        account_number="A-7K2M9QXD",
        language=language,
        sender="Service <service@example.com>",
        message_id="<1@example.com>",
    )
    text = message.get_content()
    assert message["Subject"].startswith(subject)
    assert (message["Content-Language"], message["Message-ID"]) == (language, "<1@example.com>")
    assert "A-7K2M9QXD" in text
    assert told.external_account_number in text


def test_the_first_customer_with_an_address_is_told() -> None:
    assert recipient_of(account(given_name="Erika", family_name="Groß")) == Recipient("Erika Groß", "erika@example.com")
    assert recipient_of(account("")) is None


def test_a_name_cannot_begin_a_header() -> None:
    assert on_the_wire("Erika\nBcc: all@example.com", "erika@example.com").display_name == "Erika Bcc: all@example.com"


def test_the_wire_has_domains_in_ascii() -> None:
    assert on_the_wire("", "erika@müller.example").domain == "xn--mller-kva.example"
