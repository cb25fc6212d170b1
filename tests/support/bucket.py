"""An object store for one test."""

import logging
from collections.abc import Iterator

import pytest

NAMES = ["statements/1.pdf", "Müller GmbH/a b.pdf", "x%20y.pdf"]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A root in a bucket of a real S3 protocol server."""
    import boto3  # here, since both take a second that only these tests need to spend
    from moto.server import ThreadedMotoServer

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
