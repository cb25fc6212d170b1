"""Object stores and folders by URL, with time-outs and one retry."""

from obstore.store import ObjectStore, from_url

CONNECT_TIMEOUT_S = 2.0


def open_store(url: str, *, timeout_s: float) -> ObjectStore:
    """Open the store or folder at s3://, gs://, az:// or file:///. Raises errors of obstore for an unusable URL.

    A request may take `timeout_s` seconds.
    """
    if url.startswith("file:"):
        return from_url(url)
    return from_url(
        url,
        client_options={"allow_http": True, "timeout": f"{timeout_s:g}s", "connect_timeout": f"{CONNECT_TIMEOUT_S:g}s"},
        retry_config={"max_retries": 1},
    )
