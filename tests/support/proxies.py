"""A real HAProxy with the configuration of docs/how-to/proxy.md, and a browser that connects through it."""

import contextlib
import os
import re
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest

from tests.support.certificates import self_signed
from tests.support.console import csrf_in
from tests.support.folders import ROOT
from tests.support.running import wait_for

[CONFIGURATION] = re.findall(
    r"^```text\n(global\n.*?)^```", (ROOT / "docs" / "how-to" / "proxy.md").read_text(), re.M | re.S
)
HAPROXY = shutil.which("haproxy", path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin")
PASSWORD = "Kranich Kessel Kupfer"

with_haproxy = pytest.mark.skipif(HAPROXY is None, reason="there is no haproxy here")


class Proxy(msgspec.Struct, frozen=True):
    """An HAProxy that listens, and the folder with its certificate and its log."""

    port: int
    folder: Path

    def browser(self) -> httpx.Client:
        """A browser without script that has typed `https://ledger.example`."""
        known = ssl.create_default_context(cafile=str(self.folder / "certificate.pem"))
        here = f"ledger.example:{self.port}"
        headers = {"Host": here, "Origin": f"https://{here}"}
        return httpx.Client(base_url=f"https://127.0.0.1:{self.port}", headers=headers, verify=known, timeout=60)

    def is_there(self) -> bool:
        try:
            with self.browser() as browser:
                return browser.get("/livez").status_code == 200
        except httpx.TransportError:
            return False


@contextlib.contextmanager
def haproxy_before(behind: int, folder: Path, port: int, *, more: str = "") -> Iterator[Proxy]:
    """HAProxy on one port before an api on another, until the end of the block; with more sections, if any."""
    assert HAPROXY is not None
    certificate = self_signed(folder, "ledger.example", "127.0.0.1")
    (folder / "both.pem").write_bytes(certificate.read_bytes() + (folder / "key.pem").read_bytes())
    whole = CONFIGURATION.replace("bind :443", f"bind 127.0.0.1:{port}").replace("/etc/ssl/ledger", str(folder))
    if os.geteuid() != 0:  # only root can become another user
        whole = re.sub(r"^    (user|group|chroot) .*\n", "", whole, flags=re.M)
    (folder / "haproxy.cfg").write_text(whole.replace("127.0.0.1:8000", f"127.0.0.1:{behind}") + more)
    made = Proxy(port, folder)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([HAPROXY, "-f", str(folder / "haproxy.cfg")], stdout=log, stderr=log)
    try:
        wait_for(lambda: process.poll() is not None or made.is_there(), "HAProxy answers")
        assert process.poll() is None, (folder / "log").read_text()
        yield made
    finally:
        process.terminate()
        process.wait(30)


def sign_in_through(proxy: Proxy, link: str) -> None:
    """Use a link that signs in once, choose a password, and sign in with that again."""
    place = urlsplit(link)
    assert (place.scheme, place.netloc) == ("https", f"ledger.example:{proxy.port}")
    with proxy.browser() as browser:
        page = browser.get(place.path)
        assert (page.status_code, "TLS is required" in page.text) == (200, False)
        assert page.headers.get_list("strict-transport-security") == ["max-age=31536000"]
        entered = browser.post(place.path, data={"csrf": csrf_in(page.text)})
        assert (entered.status_code, entered.headers["location"]) == (303, "/console/password/")
        [cookie] = [field for field in entered.headers.get_list("set-cookie") if "session=" in field]
        assert cookie.startswith("__Host-")
        assert "Secure" in cookie
        page = browser.get("/console/password/")
        chosen = browser.post(
            "/console/password/", data={"csrf": csrf_in(page.text), "password": PASSWORD, "again": PASSWORD}
        )
        assert chosen.status_code == 303
        assert "anna@example.org" in browser.get("/console/").text
    with proxy.browser() as browser:
        page = browser.get("/console/sign-in/")
        typed = {"csrf": csrf_in(page.text), "email": "anna@example.org", "password": PASSWORD}
        assert browser.post("/console/sign-in/", data=typed).headers["location"] == "/console/"
        assert browser.get("/console/").status_code == 200
