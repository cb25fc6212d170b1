"""Look-up of documents below a root only: in a local folder, and with the S3 protocol."""

import time
from pathlib import Path

import pytest

from tests.support.bucket import NAMES
from workers.actors.documents import DocumentsUnavailable, missing_documents, why_unreachable


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    for name in NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"%PDF")
    (tmp_path / "secret.pdf").write_bytes(b"%PDF")
    return folder


def test_a_local_folder_says_which_documents_are_missing(root: Path) -> None:
    paths = [*NAMES, "/statements/1.pdf", "statements/2.pdf", "statements"]
    assert missing_documents(root.as_uri(), paths) == {"statements/2.pdf", "statements"}


@pytest.mark.promise("document-paths-below-supplier")
@pytest.mark.asvs("V1.3.6", "V5.3.2")
@pytest.mark.api_top_10("API7")
def test_a_local_folder_is_never_left(root: Path) -> None:
    (root / "link.pdf").symlink_to(root.parent / "secret.pdf")
    (root / "inside.pdf").symlink_to(root / NAMES[0])
    paths = ["../secret.pdf", "%2e%2e/secret.pdf", str(root.parent / "secret.pdf"), "link.pdf", "inside.pdf"]
    assert missing_documents(root.as_uri(), paths) == set(paths) - {"inside.pdf"}


def test_an_s3_bucket_says_which_documents_are_missing(bucket: str) -> None:
    paths = [*NAMES, "statements/2.pdf", "../secret.pdf"]
    assert missing_documents(bucket, paths) == {"statements/2.pdf", "../secret.pdf"}


def test_a_bucket_that_is_not_there_is_unavailable_and_an_empty_one_is_not(bucket: str) -> None:
    nowhere = bucket.replace("documents", "nowhere")
    with pytest.raises(DocumentsUnavailable, match="no such bucket"):
        missing_documents(nowhere, ["statements/1.pdf"])
    assert missing_documents(f"{bucket}/nothing/below", ["x.pdf"]) == {"x.pdf"}


def test_many_documents_are_looked_for_together(bucket: str) -> None:
    paths = [f"statements/{number}.pdf" for number in range(200)]
    assert len(missing_documents(bucket, paths, timeout_s=60)) == 199


def test_a_store_that_does_not_answer_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    began = time.monotonic()
    with pytest.raises(DocumentsUnavailable):
        missing_documents("s3://documents/nord", ["1.pdf"], timeout_s=3)
    assert time.monotonic() - began < 30  # it returns at all


def test_a_root_that_cannot_be_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(DocumentsUnavailable):
        missing_documents("az://documents/nord", ["1.pdf"])


@pytest.mark.promise("documents-root-cannot-reached")
def test_a_folder_that_is_not_there_is_no_missing_document(root: Path) -> None:
    assert why_unreachable(root.as_uri()) is None
    assert "no such folder" in (why_unreachable((root / "gone").as_uri()) or "")
    with pytest.raises(DocumentsUnavailable, match="no such folder"):
        missing_documents((root / "gone").as_uri(), ["a.pdf"])
