"""The body of validate and create, bare or wrapped, read into one form."""

import re
from typing import Any

import msgspec

from schemas.account import Account, TaskParams, WrappedAccount
from schemas.base import Problem
from schemas.shape import Misfits, Shape, untyped

_WRAPPED = re.compile(rb'\s*\{\s*"(payload|task_params)"\s*:')
_canonical = msgspec.json.Encoder(order="sorted")

ACCOUNT = Shape(Account)
WRAPPED_ACCOUNT = Shape(WrappedAccount)
TASK_PARAMS = Shape(TaskParams)


class Submission(msgspec.Struct, frozen=True):
    """An account and how it is to be processed."""

    account: Account
    task: TaskParams

    def canonical_json(self) -> bytes:
        """The same bytes for the same content, however it was spelt: sorted keys, decimals as text."""
        return _canonical.encode(self.account)


def read_submission(body: bytes) -> Submission:
    """Read the bare account, or `{"payload": account, "task_params": …}`.

    Raises NotJson; Misfits, whose paths never contain `payload.` and whose value is the account's.
    """
    if not _WRAPPED.match(body):
        return Submission(ACCOUNT.read(body), _AT_ONCE)
    try:
        wrapped = WRAPPED_ACCOUNT.read(body)
    except Misfits as misfits:
        value = untyped(body)
        account = value.get("payload") if isinstance(value, dict) else value
        raise Misfits(account, [_without_wrapper(problem) for problem in misfits.problems]) from None
    return Submission(wrapped.payload, wrapped.task_params)


_AT_ONCE = TaskParams()


def _without_wrapper(problem: Problem) -> Problem:
    attr = problem.attr.removeprefix("payload.")
    return msgspec.structs.replace(problem, attr=attr)


def stated(value: Any, field: str) -> str | None:
    """A text field of an untyped body; None where there is none."""
    found = value.get(field) if isinstance(value, dict) else None
    return found if isinstance(found, str) else None
