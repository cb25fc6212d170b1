"""Keys of steps: a step of a book calls the api with its token, for its own kind of command and supplier."""

import re

from psycopg_pool import AsyncConnectionPool
from starlette.requests import Request

from api.access.api_key import digest_of
from api.access.directory import Directory, Key
from api.http.database import read
from eventstore.log.authority import AuthorityKey
from projections.auxiliary.step_tokens import running_step

STEP_TOKEN = re.compile(r"ils_(s_[0-9a-f]{24})_[0-9a-f]{64}\Z")
"""Pattern of a step's token. Its group is the step's id, which is also the id of its key."""
STEP_ID = "s_"
"""Beginning of the ids of steps. Ids of other keys have no underscore."""
_MODES = {"push": "create", "rehearse": "dry_run"}
"""Mode in which a kind of step may send accounts."""
_BULK, _RUNS = "/v2/data-import/accounts/bulk/", "/v2/data-import/runs/"


class StepKeys:
    """Keys of steps that run. They are read for each request, so that they end with the step or the user's rights."""

    def __init__(self, pool: AsyncConnectionPool, directory: Directory, authority: AuthorityKey) -> None:
        self._pool = pool
        self._directory = directory
        self._authority = authority

    async def key(self, step: str) -> Key | None:
        """Return the key of a step; None unless it runs with a valid token, for a user who may run it.

        It has the lowest rate limit of the organisation's importers. Raises StoreUnavailable.
        """
        found = await read(self._pool, running_step, self._authority, step)
        if found is None:
            return None
        return Key(
            key_id=step,
            organisation=found.organisation,
            role="importer",
            suppliers=frozenset({found.supplier}),
            secret_sha256=digest_of(found.token(self._authority)),
            revoked_at=None,
            rate_per_s=self._directory.lowest_rate(found.organisation),
            step_kind=found.kind,
        )


def may_call(kind: str, request: Request) -> bool:
    """Return True if a step of this kind may make the request.

    All steps may read. Only a push may create accounts, which a second person may have to approve.
    """
    if request.method in ("GET", "HEAD"):
        return True
    if request.url.path == _BULK:
        return request.query_params.getlist("mode") == [_MODES.get(kind)]
    return kind == "reconcile" and request.url.path.startswith(_RUNS)
