"""HTTP status codes of refusals, and the exception that ends a request with one."""

from collections.abc import Mapping
from typing import Any

from eventstore.errors import Refused
from schemas.sentence import Sentence

CODES = {
    400: "invalid",
    401: "not_authenticated",
    403: "permission_denied",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    409: "idempotency_key_in_use",
    413: "request_too_large",
    414: "uri_too_long",
    415: "unsupported_media_type",
    422: "idempotency_key_reused",
    429: "throttled",
    431: "header_too_large",
    503: "service_unavailable",
}
STOPPED = "intake_stopped"
"""Code of a 503 while intake is stopped: no accounts are accepted until an operator decides."""
FAILING = "part_failing"
"""Code of a 503 of `/readyz`: accounts are accepted, but another part of the service fails."""
STARTING = "log_not_compared"
"""Code of a 503 of `/readyz`: the relay has not compared the log since the database started."""
INTAKE_STOPPED = Sentence(
    "Intake is stopped: the log does not continue what was signed, and an operator must decide. Nothing was stored;"
    " repeating the request later is safe.",
    "Die Annahme ist gestoppt: Das Protokoll setzt nicht fort, was signiert wurde, und ein Betreiber muss entscheiden."
    " Nichts wurde gespeichert; die Anfrage kann später gefahrlos wiederholt werden.",
)


def sentence_of(refusal: Refused) -> Sentence:
    """Return the reason why the log refused a command, in both languages."""
    return Sentence(str(refusal), refusal.german)


class ApiError(Exception):
    """An answer that ends the request: status, permanent code, sentence."""

    def __init__(
        self, status: int, detail: Sentence, *, code: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.code = code or CODES[status]
        self.headers = headers

    @property
    def body(self) -> dict[str, Any]:
        """Body of the answer: `detail` and `code`."""
        return {"detail": self.detail, "code": self.code}
