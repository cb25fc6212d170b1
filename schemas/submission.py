"""The body of validate and create, bare or wrapped, read into one form."""

import re
from contextlib import suppress
from decimal import Decimal

import msgspec

from schemas.account import Account, TaskParams, WrappedAccount
from schemas.base import Problem
from schemas.problems import is_stated
from schemas.shape import Shape
from schemas.work import ASKED, STORED, Bounds

_WRAPPED = re.compile(rb'\s*\{\s*"(payload|task_params)"\s*:')
_decode_account = msgspec.json.Decoder(Account, float_hook=Decimal).decode
_canonical = msgspec.json.Encoder(order="sorted")

ACCOUNT = Shape(Account)
WRAPPED_ACCOUNT = Shape(WrappedAccount)


class Submission(msgspec.Struct, frozen=True):
    """An account and how it is to be processed.

    Where `misfits` names something, the account holds a stand-in; paths never contain `payload.`.
    """

    account: Account
    task: TaskParams
    misfits: tuple[Problem, ...] = ()

    def canonical_json(self) -> bytes:
        """The same bytes for the same content, however it was spelt: sorted keys, decimals as text."""
        return _canonical.encode(self.account)

    def states(self, field: str) -> bool:
        """True when the account says this itself, and no stand-in does."""
        return is_stated(field, self.misfits)


def read_submission(body: bytes, bounds: Bounds = ASKED) -> Submission:
    """Read the bare account, or `{"payload": account, "task_params": …}`. Raises NotJson, TooMuchWork."""
    if not _WRAPPED.match(body):
        account, misfits = ACCOUNT.examine(body, bounds)
        return Submission(account, _AT_ONCE, tuple(misfits))
    wrapped, misfits = WRAPPED_ACCOUNT.examine(body, bounds)
    return Submission(wrapped.payload, wrapped.task_params, tuple(_without_wrapper(misfit) for misfit in misfits))


def stored_submission(body: bytes) -> Submission:
    """A body that is in the log, read whatever it costs. Raises NotJson."""
    return read_submission(body, STORED)


def imported_account(body: bytes) -> Account:
    """The account in a body that was imported: as `stored_submission` reads it, without looking for misfits first."""
    if not _WRAPPED.match(body):
        with suppress(msgspec.ValidationError):
            return _decode_account(body)
    return stored_submission(body).account


_AT_ONCE = TaskParams()


def _without_wrapper(problem: Problem) -> Problem:
    attr = "non_field_errors" if problem.attr == "payload" else problem.attr.removeprefix("payload.")
    return msgspec.structs.replace(problem, attr=attr)
