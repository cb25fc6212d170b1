"""A document path never leads out of its root, however it is spelled."""

import posixpath
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from market.documents import is_below_root, is_root_below, path_below_root


@pytest.mark.parametrize(
    ("path", "below"),
    [
        ("statements/2022/1.pdf", "statements/2022/1.pdf"),
        ("/statements//1.pdf", "statements/1.pdf"),
        ("Müller GmbH/a b.pdf", "Müller GmbH/a b.pdf"),
        ("x%20y.pdf", "x%20y.pdf"),
        ("..pdf", "..pdf"),
    ],
)
def test_a_path_below_the_root_is_taken_as_it_is(path: str, below: str) -> None:
    assert path_below_root(path) == below
    assert is_below_root(path)


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../x.pdf",
        "a/../../x.pdf",
        "/../x",
        "a/./x",
        "%2e%2e/x",
        "a%2f..%2fx",
        "%252e%252e/x",
        "..\\x",
        "a\\..\\x",
        "%5c..",
        "C:\\x",
        "a\nb",
        "/",
        "%00",
    ],
)
def test_a_path_that_leads_upwards_is_refused(path: str) -> None:
    assert not is_below_root(path)


def test_a_path_is_decoded_three_times_and_no_more() -> None:
    assert not is_below_root("%25252e%25252e/x.pdf")
    assert is_below_root("%2525252e%2525252e/x.pdf")


@given(st.lists(st.sampled_from(["..", ".", "/", "a", "%2e", "%2f", "%", "25", "\\", "//"]), max_size=12))
def test_no_spelling_leaves_the_root(parts: list[str]) -> None:
    below = path_below_root("".join(parts))
    if below is not None:
        assert posixpath.normpath(posixpath.join("/root", below)).startswith("/root/")


@pytest.mark.parametrize(
    ("root", "place"),
    [
        ("s3://b/docs/nord", "s3://b/docs"), ("s3://b", "s3://b/"), ("file:///srv/nord/", "file:///srv/nord"),
        ("file:///srv//nord/2026", "file:///srv/nord"), ("file:///srv/M%C3%BCller/a", "file:///srv/Müller"),
    ],
)  # fmt: skip
def test_a_root_may_be_a_place_or_below_it(root: str, place: str) -> None:
    assert is_root_below(root, ["gs://other", place])


@pytest.mark.parametrize(
    "root",
    [
        "file:///etc", "file:///srv/nordisk", "file:///srv", "file:///srv/nord/../sued", "file:///srv/nord/%2e%2e/sued",
        "file:///srv/nord/%252e%252e/sued", "file://host/srv/nord", "file:////", "s3://srv/nord", "s3://b@srv/nord", "",
        "file:///srv/nord?x", "file:///srv/nord#x", "file:///srv/nord\\..\\x", "file:///srv/nord\n", "FILE:///srv/nord",
        "gs://nord",
    ],
)  # fmt: skip
def test_a_root_elsewhere_is_not_below_a_place(root: str) -> None:
    assert not is_root_below(root, ["file:///srv/nord", "s3://nord"])


@given(st.lists(st.sampled_from(["..", ".", "/", "a", "%2e", "%2f", "%", "25", "\\", "//"]), max_size=12))
def test_no_spelling_of_a_root_leaves_its_place(parts: list[str]) -> None:
    root = "file:///srv/nord" + "".join(parts)
    if is_root_below(root, ["file:///srv/nord"]):
        assert f"{posixpath.normpath(unquote(root.removeprefix('file://')))}/".startswith("/srv/nord/")
