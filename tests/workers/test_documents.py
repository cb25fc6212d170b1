"""Documents are looked for below the root and nowhere else: in a local folder, and over the S3 protocol."""

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from workers.documents import DocumentsUnavailable, missing_documents

NAMES = ["statements/1.pdf", "Müller GmbH/a b.pdf", "x%20y.pdf"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    for name in NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"%PDF")
    (tmp_path / "secret.pdf").write_bytes(b"%PDF")
    return folder


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A root in a bucket of a real S3 protocol server."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "eu-central-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1")
    client.create_bucket(Bucket="documents")
    for name in NAMES:
        client.put_object(Bucket="documents", Key=f"nord/{name}", Body=b"%PDF")
    client.put_object(Bucket="documents", Key="secret.pdf", Body=b"%PDF")
    client.close()
    yield "s3://documents/nord"
    server.stop()


def test_a_local_folder_says_which_documents_are_missing(root: Path) -> None:
    paths = [*NAMES, "/statements/1.pdf", "statements/2.pdf", "statements"]
    assert missing_documents(root.as_uri(), paths) == {"statements/2.pdf", "statements"}


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
