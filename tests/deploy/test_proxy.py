"""TLS: a real HAProxy, with the configuration of docs/how-to/proxy.md, in front of a service."""

import re
from collections.abc import Iterator
from functools import partial
from ipaddress import ip_network
from pathlib import Path

import httpx
import msgspec
import pytest
import yaml
from starlette.requests import Request

from cli.service.settings import Settings
from console.access.transport import Transport
from tests.support.folders import temporary_folder
from tests.support.make import an_account, encoded
from tests.support.proxies import Proxy, haproxy_before, with_haproxy
from tests.support.running import RunningService, free_port, processed, start_service, wait_for

ROOT = Path(__file__).parent.parent.parent
UNIT_SETTINGS = (ROOT / "deploy" / "systemd" / "importledger.env.example").read_text()


def trusted_by_systemd() -> str:
    [networks] = re.findall(r'^IMPORTLEDGER_TRUSTED_PROXIES="(.*)"$', UNIT_SETTINGS, re.M)
    return str(networks)


def trusted_by_compose() -> str:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    [network] = compose["networks"]["default"]["ipam"]["config"]
    trusted = compose["services"]["api"]["environment"]["IMPORTLEDGER_TRUSTED_PROXIES"]
    assert trusted == network["subnet"], "requests from the machine come from the network's gateway"
    return str(re.fullmatch(r"\$\{IMPORTLEDGER_SUBNET:-(.*)\}", trusted)[1])  # type: ignore[index]


def trusted_by_kubernetes() -> str:
    [configuration] = [
        manifest
        for manifest in yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "configuration.yaml").read_text())
        if manifest["kind"] == "ConfigMap"
    ]
    return str(configuration["data"]["IMPORTLEDGER_TRUSTED_PROXIES"])


@pytest.mark.api_top_10("API8")
@pytest.mark.parametrize(
    ("trusted", "proxy", "stranger"),
    [
        (trusted_by_systemd(), "127.0.0.1", "192.0.2.1"),
        (trusted_by_systemd(), "::1", "2001:db8::1"),
        (trusted_by_compose(), str(ip_network(trusted_by_compose())[1]), "127.0.0.1"),
        (trusted_by_kubernetes(), "10.244.1.7", "192.0.2.1"),
    ],
    ids=["systemd", "systemd over IPv6", "compose", "kubernetes"],
)
def test_each_recipe_trusts_its_own_proxy_and_nobody_else(trusted: str, proxy: str, stranger: str) -> None:
    settings = Settings.from_environment({"IMPORTLEDGER_TRUSTED_PROXIES": trusted}).console
    headers = [
        (b"host", b"ledger.example"),
        (b"x-forwarded-proto", b"https"),
        (b"x-forwarded-for", b"127.0.0.1"),  # sent by the client; some proxies add a field of their own
        (b"x-forwarded-for", b"198.51.100.7"),
    ]

    def come_by(peer: str) -> Transport:
        return Transport(Request({"type": "http", "client": (peer, 1), "headers": headers}), settings.trusted_proxies)

    assert (come_by(proxy).is_safe_to_sign_in, come_by(proxy).address) == (True, "198.51.100.7")
    assert (come_by(stranger).is_safe_to_sign_in, come_by(stranger).address) == (False, stranger)


def test_every_recipe_names_where_people_reach_the_console() -> None:
    [ingress] = yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "ingress.yaml").read_text())
    configuration = (ROOT / "deploy" / "kubernetes" / "configuration.yaml").read_text()
    host = ingress["spec"]["rules"][0]["host"]
    assert ingress["spec"]["tls"][0]["hosts"] == [host]
    assert f"IMPORTLEDGER_CONSOLE_URL: https://{host}\n" in configuration
    assert 'IMPORTLEDGER_CONSOLE_URL="https://ledger.example"' in UNIT_SETTINGS
    assert "IMPORTLEDGER_CONSOLE_URL" in (ROOT / "compose.yaml").read_text()


class Proxied(msgspec.Struct, frozen=True):
    """A service behind HAProxy as on the page, and behind one that adds no headers."""

    service: RunningService
    proxy: Proxy
    bare_port: int

    def browser(self) -> httpx.Client:
        return self.proxy.browser()


@pytest.fixture(scope="module")
def proxied() -> Iterator[Proxied]:
    with temporary_folder() as folder, temporary_folder() as data:
        port, bare_port, behind = free_port(), free_port(), free_port()
        bare = f"listen bare\n    bind 127.0.0.1:{bare_port}\n    server api1 127.0.0.1:{behind}\n"
        bare += f"    http-request set-header Host 127.0.0.1:{behind}\n"
        environment = {
            "IMPORTLEDGER_TRUSTED_PROXIES": trusted_by_systemd(),
            "IMPORTLEDGER_CONSOLE_URL": f"https://ledger.example:{port}",
        }
        with (
            start_service(data, environment=environment, port=behind) as service,
            haproxy_before(behind, folder, port, more=bare) as proxy,
        ):
            yield Proxied(service, proxy, bare_port)


@pytest.mark.asvs("V4.1.3", "V15.3.4")
@with_haproxy
def test_a_client_cannot_speak_for_the_proxy(proxied: Proxied) -> None:
    forged = {"X-Forwarded-Proto": "http", "X-Forwarded-For": "127.0.0.1", "Forwarded": "proto=http"}
    with proxied.browser() as browser:
        assert "TLS is required" not in browser.get("/console/sign-in/", headers=forged).text


@pytest.mark.api_top_10("API8")
@with_haproxy
def test_metrics_are_closed_behind_a_proxy_on_the_same_machine(proxied: Proxied) -> None:
    """Also behind a proxy that adds no client address and sends `Host: 127.0.0.1`, as nginx does by default."""
    with proxied.browser() as browser:
        assert browser.get("/metrics").status_code == 404
    bare = f"http://127.0.0.1:{proxied.bare_port}"
    for path in ("/metrics", "/metrics/"):
        answer = httpx.get(bare + path)
        assert (answer.status_code, "importledger_" in answer.text) == (401, False)


@with_haproxy
def test_paths_and_bodies_of_any_size_arrive_as_sent(proxied: Proxied) -> None:
    importer = proxied.service.importer()
    account = an_account(importer.supplier) | {"external_account_number": "A/1"}
    headers = {"Authorization": f"Token {importer.api_key}"}
    with proxied.browser() as browser:
        browser.headers.update(headers)
        sent = browser.post("/v2/data-import/accounts/", content=encoded(account))
        assert (sent.status_code, sent.text) == (201, "{}")
        assert browser.get(f"/v2/data-import/accounts/{importer.supplier}/A%2F1/").status_code == 200
        large = b"\n" * 11_000_000
        for path in ("/v2/data-import/accounts/bulk/", "/v2/data-import/accounts/bulk"):
            answer = browser.post(
                path, content=encoded(account) + large, headers={"Content-Type": "application/x-ndjson"}
            )
            assert (answer.status_code, '"summary"' in answer.text) == (200, True)
        assert browser.post("/v2/data-import/accounts/", content=large).status_code == 413


@with_haproxy
def test_receipts_arrive_while_the_body_is_still_sent(proxied: Proxied) -> None:
    """Body and response are streamed at the same time. A proxy that buffers one of them stalls large bodies."""
    importer = proxied.service.importer()

    def lines() -> Iterator[bytes]:
        for number in range(1, 4):
            yield encoded(an_account(importer.supplier, number)) + b"\n"
            wait_for(partial(is_processed, number), "the line was taken while the body went on")

    def is_processed(number: int) -> bool:
        return processed(importer) == number

    headers = {"Authorization": f"Token {importer.api_key}", "Content-Type": "application/x-ndjson"}
    with proxied.browser() as browser:
        answer = browser.post("/v2/data-import/accounts/bulk/", content=lines(), headers=headers)
    assert ["summary" in line for line in answer.text.splitlines()] == [False, False, False, True]


@with_haproxy
def test_a_bulk_body_that_the_service_reads_slowly_arrives(proxied: Proxied) -> None:
    importer = proxied.service.importer()
    lines = b"\n".join(encoded(an_account(importer.supplier, number)) for number in range(1, 2_001))
    headers = {"Authorization": f"Token {importer.api_key}", "Content-Type": "application/x-ndjson"}
    with proxied.browser() as browser:
        answer = browser.post("/v2/data-import/accounts/bulk/", content=lines, headers=headers)
    assert len(answer.text.splitlines()) == 2_001
