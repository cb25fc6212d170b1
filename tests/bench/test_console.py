"""`make bench CONSOLE=1` times every page of the console."""

import re

from bench.console import UNTIMED, pages
from console.access.visit import ROOT
from console.screens import SCREENS


def test_every_page_is_timed() -> None:
    addresses = [address.partition("?")[0] for address in pages("u_1", "k_1")]
    untimed = []
    for screen in (screen for screen in SCREENS if screen.method == "GET"):
        pattern = re.sub(r"\{\w+\}", "[^/]+", re.escape(ROOT + screen.path).replace(r"\{", "{").replace(r"\}", "}"))
        if not any(re.fullmatch(pattern, address) for address in addresses):
            untimed.append(screen.path)
    assert sorted(untimed) == sorted(UNTIMED)
