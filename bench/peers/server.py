"""The server of the ASGI applications that are compared: uvicorn as fast as it can be."""

import sys
from typing import Any

import uvicorn


def serve(app: Any) -> None:
    """Serve the application on the port that is this program's argument, until a signal."""

    options = {"http": "httptools", "loop": "uvloop", "lifespan": "on"}
    uvicorn.run(app, port=int(sys.argv[1]), access_log=False, server_header=False, log_config=None, **options)
