"""The body of validate and create, bare or wrapped, read into one form."""

import hashlib
import re
from collections.abc import Callable
from contextlib import suppress

import msgspec
from msgspec import UNSET

from schemas.account import Account, TaskParams, WrappedAccount
from schemas.base import Problem
from schemas.reading.as_sent import SentShape, canonical_json
from schemas.reading.problems import is_stated
from schemas.reading.shape import Shape, exact_number
from schemas.reading.work import ASKED, STORED, Bounds
from system.steps import Steps, to_the_end

_WRAPPED = re.compile(rb'\s*\{\s*"(payload|task_params)"\s*:')

ACCOUNT = Shape(Account)
WRAPPED_ACCOUNT = Shape(WrappedAccount)
SENT_ACCOUNT = SentShape(Account)
SENT_WRAPPED_ACCOUNT = SentShape(WrappedAccount)


class Submission(msgspec.Struct, frozen=True):
    """An account and how it is to be processed.

    Where `misfits` names something, the account holds a stand-in; paths never contain `payload.`. `digest` is that of
    the content, where reading has made it already.
    """

    account: Account
    task: TaskParams
    misfits: tuple[Problem, ...] = ()
    digest: bytes = b""

    def canonical_json(self) -> bytes:
        """The same bytes for the same content, however it was spelt."""
        return canonical_json(self.account)

    def content_sha256(self) -> bytes:
        """The digest of the same."""
        return self.digest or hashlib.sha256(self.canonical_json()).digest()

    def states(self, field: str) -> bool:
        """True when the account says this itself, and no stand-in does."""
        return not self.misfits or is_stated(field, self.misfits)


def is_wrapped(body: bytes) -> bool:
    """Whether a body is `{"payload": account, "task_params": …}`, whatever else it is."""
    return _WRAPPED.match(body) is not None


def read_submission(body: bytes, bounds: Bounds = ASKED) -> Submission:
    """Read the bare account, or `{"payload": account, "task_params": …}`. Raises NotJson, TooMuchWork."""
    if not is_wrapped(body):
        account, misfits = ACCOUNT.examine(body, bounds)
        return Submission(account, _AT_ONCE, tuple(misfits))
    wrapped, misfits = WRAPPED_ACCOUNT.examine(body, bounds)
    return Submission(wrapped.payload, wrapped.task_params, tuple(_without_wrapper(misfit) for misfit in misfits))


def sent_submission(body: bytes, *, with_digest: bool = False) -> Submission:
    """`sent_submission_in_steps`, to the end."""
    return to_the_end(sent_submission_in_steps(body, with_digest=with_digest))


def sent_submission_in_steps(body: bytes, *, with_digest: bool = False) -> Steps[Submission]:
    """The same for judging, read in one go and once: what is absent is told from what is empty
    (`schemas.reading.as_sent`).

    `with_digest` says that the digest of its content will be asked for. Raises NotJson, TooMuchWork.
    """
    if not is_wrapped(body):
        if (bare := (yield from SENT_ACCOUNT.at_once_in_steps(body, with_digest=with_digest))) is not None:
            return Submission(bare[0], _AT_ONCE, (), bare[1])
        account, misfits = SENT_ACCOUNT.shape.examine(body)
        return Submission(account, _AT_ONCE, tuple(misfits))
    if (at_once := (yield from SENT_WRAPPED_ACCOUNT.at_once_in_steps(body))) is not None:
        return Submission(at_once[0].payload, _whole_task(at_once[0].task_params))
    wrapped, misfits = SENT_WRAPPED_ACCOUNT.shape.examine(body)
    return Submission(
        wrapped.payload, _whole_task(wrapped.task_params), tuple(_without_wrapper(misfit) for misfit in misfits)
    )


def _whole_task(task: TaskParams) -> TaskParams:
    """The task parameters, with defaults for those that were not sent."""
    if not task:
        return _AT_ONCE
    sent = {name: getattr(task, name) for name in TaskParams.__struct_fields__}
    return TaskParams(**{name: value for name, value in sent.items() if value is not UNSET})


def stored_submission(body: bytes) -> Submission:
    """A body that is in the log, read whatever it costs. Raises NotJson."""
    return read_submission(body, STORED)


def stored_account(body: bytes) -> Account:
    """The account in such a body, read in one go where that is exact. Raises NotJson."""
    if not is_wrapped(body):
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return _decode(body)
    return stored_submission(body).account


_decode: Callable[[bytes], Account] = msgspec.json.Decoder(Account, float_hook=exact_number).decode


_AT_ONCE = TaskParams()


def _without_wrapper(problem: Problem) -> Problem:
    attr = "non_field_errors" if problem.attr == "payload" else problem.attr.removeprefix("payload.")
    return msgspec.structs.replace(problem, attr=attr)
