"""Texts and recipients of e-mails to customers, in both languages."""

from email import message_from_bytes
from email.policy import default

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.account import Account
from schemas.submission import read_submission
from tests.support.make import an_account, changed, encoded
from workers.actors.mail_text import Recipient, message_about, recipient_of, wire_address, without_links
from workers.actors.send_mails import encoded_mail


def account(email: str = "erika@example.com", **name: str) -> Account:
    sent = changed(an_account(), email, "customers", 0, "email")
    sent["customers"][0] |= name
    return read_submission(encoded(sent)).account


@pytest.mark.parametrize(("language", "subject"), [("de", "Ihr Energiekonto"), ("en", "Your energy account")])
def test_the_message_names_both_numbers_in_its_language(language: str, subject: str) -> None:
    sent_account = account()
    message = message_about(
        sent_account,
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
    assert sent_account.external_account_number in text


def test_the_first_customer_with_an_address_is_told() -> None:
    assert recipient_of(account(given_name="Erika", family_name="Groß")) == Recipient("Erika Groß", "erika@example.com")
    assert recipient_of(account("")) is None


ODD = st.sampled_from(
    [", ", '"', "\\", "\r\n", "<", ">", "@", ":", ";", "(", "=?utf-8?q?=2C?=", "Ä", "\U0001f600", "\u2028", "b@c.de"]
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=300) | st.lists(
    ODD | st.text("ab ", max_size=60)
).map("".join)


@pytest.mark.promise("any-name-part-one")
@pytest.mark.asvs("V1.3.3", "V1.3.11")
@given(
    name=NAMES, local=st.text("abc", min_size=1, max_size=64), domain=st.sampled_from(["example.com", "müller.example"])
)
@example(name='Meyer, "Bär" ' + "x" * 300 + ", b@c.de", local="a", domain="example.com")
@example(name="a, " * 100, local="a", domain="example.com")
def test_any_name_is_part_of_one_address(name: str, local: str, domain: str) -> None:
    message = message_about(
        account(), Recipient(name, f"{local}@{domain}"),
        account_number="A-1", language="de", sender="Service, the <service@example.com>", message_id="<1@example.com>",
    )  # fmt: skip
    received = message_from_bytes(encoded_mail(message).content, policy=default)
    [address] = received["To"].addresses
    assert address.addr_spec == wire_address("", f"{local}@{domain}").addr_spec
    assert address.display_name == without_links(name)
    assert len(received["From"].addresses) == 1
    assert {*received} == {*message, "MIME-Version"}


@pytest.mark.promise("any-name-part-one")
@pytest.mark.asvs("V1.3.11")
@pytest.mark.api_top_10("API6")
@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ("Erika Groß-O’Neill", "Erika Groß-O’Neill"), ("Dr. A. Meier & Söhne, Berlin", "Dr. A. Meier & Söhne, Berlin"),
        ("NO-01/2.3_4#5", "NO-01/2.3_4#5"), ("Gewinn: https://evil.example/?y=1", "Gewinn https //evil. example/ y 1"),
        ("www.evil.example", "www. evil. example"), ("evil。example", "evil example"), ("a@b.de", "a b. de"),
        ("a\u202eb\u200bc", "a b c"), ("1.2.3.4", "1.2.3.4"),
    ],
)  # fmt: skip
def test_what_an_importer_has_sent_is_no_link_in_a_customers_mail(sent: str, told: str) -> None:
    assert without_links(sent) == told


def test_the_wire_has_domains_in_ascii() -> None:
    assert wire_address("", "erika@müller.example").domain == "xn--mller-kva.example"
