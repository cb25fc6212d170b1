"""The guide at /docs/guide/: complete, and without content of other sites."""

import asyncio
import base64
import hashlib
import json
import re
import runpy
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from api.app import create_app
from api.endpoints.documentation import Guide
from api.http.errors import HANDLERS
from api.http.paths import single_form
from tests.support.folders import temporary_folder
from tests.support.running import RunningService

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def pages() -> Iterator[Path]:
    """The guide that `make setup` has built, or a new one if a document is newer."""
    sources, built = [ROOT / "README.md", *ROOT.glob("docs/**/*.md")], ROOT / "api" / "guide"
    if built.exists() and all(source.stat().st_mtime < built.stat().st_mtime for source in sources):
        yield built
        return
    with temporary_folder() as folder:
        runpy.run_path(str(ROOT / "docs" / "guide" / "build.py"))["build"](folder / "guide")
        yield folder / "guide"


class Client:
    """Asks an application for pages, without a server."""

    def __init__(self, app: Starlette) -> None:
        self._transport = httpx.ASGITransport(app)

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
        async def answer() -> httpx.Response:
            async with httpx.AsyncClient(transport=self._transport, base_url="http://guide") as client:
                return await client.get(path, headers=dict(headers or {}))

        return asyncio.run(answer())


def client_of(folder: Path) -> Client:
    guide = Guide(folder)
    routes = list(single_form("/docs/guide/{path:path}", guide.file, "GET"))
    return Client(Starlette(routes=routes, exception_handlers=HANDLERS))


def test_every_document_is_a_page_of_the_guide(pages: Path) -> None:
    client = client_of(pages)
    assert "Two commands" in client.get("/docs/guide/").text
    for document in ROOT.glob("docs/**/*.md"):
        page = document.relative_to(ROOT / "docs").with_suffix(".html")
        assert client.get(f"/docs/guide/{page}").status_code == 200, page


def test_the_address_of_the_service_leads_to_a_page(service: RunningService) -> None:
    answer, headers = service.request("GET", "/")
    assert answer.status == 307
    with httpx.Client(base_url=service.base_url) as client:
        page = client.get(headers["location"])
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")


@pytest.mark.parametrize(("has_guide", "place"), [(True, "/docs/guide/"), (False, "/docs/")])
def test_a_service_without_a_guide_leads_to_its_reference(
    pages: Path, tmp_path: Path, *, has_guide: bool, place: str
) -> None:
    guide = Guide(pages if has_guide else tmp_path)
    client = Client(Starlette(routes=list(single_form("/", guide.to_guide, "GET"))))
    assert client.get("/").headers["location"] == place


@pytest.mark.asvs("V1.2.3", "V14.2.3")
def test_pages_load_nothing_from_elsewhere_and_run_no_script_that_is_not_their_own(pages: Path) -> None:
    client = client_of(pages)
    for page in pages.rglob("*.html"):
        answer = client.get(f"/docs/guide/{page.relative_to(pages)}")
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]
        for script in re.findall(rb"<script>(.*?)</script>", answer.content, re.DOTALL):
            assert base64.b64encode(hashlib.sha256(script).digest()).decode() in policy
        assert not re.findall(r'<(?:script|img|link|iframe)[^>]+(?:src|href)="(?:https?:)?//', answer.text), page
        assert not re.search(r"<[^>]+ on(?:click|load|error)=", answer.text), page


def test_the_search_knows_the_words_of_the_documents(pages: Path) -> None:
    client = client_of(pages)
    assert client.get("/docs/guide/search.html?q=checkpoint").status_code == 200
    index = client.get("/docs/guide/searchindex.js")
    assert index.headers["content-type"].startswith("text/javascript")
    found = json.loads(index.text.removeprefix("Search.setIndex(").rstrip().removesuffix(")"))
    page = found["docnames"].index("reference/verify")
    assert page in [*_places(found["terms"], "checkpoint"), *_places(found["titleterms"], "checkpoint")]


def _places(terms: dict[str, int | list[int]], word: str) -> list[int]:
    """The pages that hold a word."""
    places = terms.get(word, [])
    return places if isinstance(places, list) else [places]


@pytest.mark.asvs("V5.3.2", "V13.4.3")
def test_a_page_is_sent_once_and_nothing_outside_of_the_guide_is_served(pages: Path) -> None:
    client = client_of(pages)
    first = client.get("/docs/guide/reference/verify.html")
    again = client.get("/docs/guide/reference/verify.html", headers={"If-None-Match": first.headers["etag"]})
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
    for path in ("nothing.html", "%2e%2e/app.py", "_static/../../app.py", "_sources/index.md.txt"):
        assert client.get(f"/docs/guide/{path}").status_code == 404


def test_a_guide_that_was_not_built_says_how_to_build_it(folder: Path) -> None:
    answer = client_of(folder / "none").get("/docs/guide/")
    assert answer.status_code == 404
    assert "make docs" in answer.json()["detail"]


def test_the_example_account_is_handed_out_without_a_token() -> None:
    client = Client(create_app("postgresql://nobody@127.0.0.1:1/none", b"k" * 32))
    answer = client.get("/docs/account.json")
    assert answer.status_code == 200
    assert answer.json()["import_supplier"] == "NORDWIND"
    moved = client.get("/docs/guide")
    assert (moved.status_code, moved.headers["location"]) == (308, "/docs/guide/")


def test_the_reference_page_sends_no_form_and_keeps_its_fonts() -> None:
    client = Client(create_app("postgresql://nobody@127.0.0.1:1/none", b"k" * 32))
    page = client.get("/docs/")
    script = client.get("/docs/assets/swagger-ui-bundle.js")
    for answer in (page, script):
        directives = answer.headers["content-security-policy"].split("; ")
        assert {"form-action 'none'", "font-src 'self' data:"} <= set(directives)
    assert len({page.headers["etag"], script.headers["etag"]}) == 2
    again = client.get("/docs/assets/swagger-ui-bundle.js", headers={"If-None-Match": script.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
