"""Table of the settings. A name with a slip would leave its setting at the default without a word, so it is refused."""

import difflib
import re
from collections.abc import Mapping
from typing import Literal

Disclosure = Literal["secret", "private", "plain"]
SETTINGS: Mapping[str, Disclosure] = {
    "DATABASE_URL": "secret",
    "DATABASE_ADMIN_URL": "secret",
    "REDIS_URL": "secret",
    "IMPORTLEDGER_TOKEN_KEY": "secret",
    "IMPORTLEDGER_REQUEST_KEY": "secret",
    "IMPORTLEDGER_SEALING_KEY": "secret",
    "IMPORTLEDGER_SMTP_URL": "secret",
    "IMPORTLEDGER_OIDC_CLIENT_SECRET": "secret",
    "IMPORTLEDGER_CHECKPOINTS_URL": "private",
    "IMPORTLEDGER_CONSOLE_URL": "private",
    "IMPORTLEDGER_DATA_DIR": "plain",
    "IMPORTLEDGER_DOCUMENTS_PLACES": "private",
    "IMPORTLEDGER_DURABILITY": "plain",
    "IMPORTLEDGER_HEALTH_PORT": "private",
    "IMPORTLEDGER_LOG_FORMAT": "plain",
    "IMPORTLEDGER_LOG_LEVEL": "plain",
    "IMPORTLEDGER_MAIL_FROM": "private",
    "IMPORTLEDGER_METRICS_HOST": "plain",
    "IMPORTLEDGER_METRICS_PORT": "plain",
    "IMPORTLEDGER_NICENESS": "plain",
    "IMPORTLEDGER_OIDC_CLAIM": "private",
    "IMPORTLEDGER_OIDC_CLIENT_ID": "private",
    "IMPORTLEDGER_OIDC_ISSUER": "private",
    "IMPORTLEDGER_OIDC_ROLES": "private",
    "IMPORTLEDGER_SANDBOX": "plain",
    "IMPORTLEDGER_SEAL_EVERY_S": "plain",
    "IMPORTLEDGER_SMTP_PLAINTEXT": "private",
    "IMPORTLEDGER_TRUSTED_PROXIES": "private",
}
"""Every setting. A secret may stand in a file instead, which `NAME_FILE` names: containers' secrets, systemd's
credentials. Of a plain one, a support bundle holds the value; of all others, only that they are set.
"""
SECRETS = tuple(name for name, disclosure in SETTINGS.items() if disclosure == "secret")
INTERNAL = ("IMPORTLEDGER_ROLE_NAME", "IMPORTLEDGER_ROLES_FILE")
"""Set by a supervisor for its children."""
ELSEWHERE = ("IMPORTLEDGER_URL", "IMPORTLEDGER_KEY", "IMPORTLEDGER_PUBLISH", "IMPORTLEDGER_SUBNET")
"""Read by importbook and by compose.yaml."""

_KNOWN = frozenset((*SETTINGS, *INTERNAL, *ELSEWHERE, *(f"{name}_FILE" for name in SECRETS)))
_OURS = "IMPORTLEDGER"
_SERVICE_LINK = re.compile(
    r"\w+_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_\w+)?)=|\w+_PORT=(?:tcp|udp|sctp)://"
)
"""`NAME=VALUE` of what Kubernetes sets in each container for a Service whose name begins like ours."""


def unknown_setting(environment: Mapping[str, str]) -> str | None:
    """The sentence that refuses a name which looks like a setting and is none; None where there is no such name."""
    for name in sorted(environment):
        if name in _KNOWN or not _is_meant_for_us(name) or _SERVICE_LINK.match(f"{name}={environment[name]}"):
            continue
        near = difflib.get_close_matches(name.upper(), sorted(_KNOWN), n=1, cutoff=0.85)
        return f"{name} must not be set: there is no such setting." + (f" Did you mean {near[0]}?" if near else "")
    return None


def _is_meant_for_us(name: str) -> bool:
    """True where the name begins with ours, perhaps with a slip in it."""
    begin = name.upper().replace("_", "")[: len(_OURS)]
    return difflib.SequenceMatcher(None, begin, _OURS).ratio() > 0.85
