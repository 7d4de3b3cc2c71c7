"""Why a step, a call or a whole task failed, in the categories by which the coordinator decides about retries.

Code raises a `Failure` to name its category; any other exception is USER_CODE and may be retried. The worker only reports
what happened. `StepFailed` and `CallFailed` are what a durable function sees, in the first attempt as in every replay.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from . import _json
from .errors import TenureError

Category: TypeAlias = Literal["USER_CODE", "DATA_QUALITY", "INFRASTRUCTURE", "CONFIGURATION", "TIMEOUT", "CANCELLED"]

#: A screen or two of text for people.
MESSAGE_BYTES_MAX = 4 * 1024
#: A deep stack of a verbose program.
STACK_TRACE_BYTES_MAX = 32 * 1024

_RETRIED: frozenset[str] = frozenset({"USER_CODE", "INFRASTRUCTURE", "TIMEOUT"})


class Failure(TenureError):
    """A failure with its category. Raise one of its constructors:

    >>> raise Failure.data("the order has no items")
    Traceback (most recent call last):
    tenure.failure.Failure: the order has no items
    """

    category: Category
    #: A stable word, for a failure that the coordinator or the engine names.
    reason: str | None
    message: str
    stack_trace: str | None
    #: Whether the attempt is handed back instead of failed.
    is_hand_back: bool
    #: What the code was doing when it was cancelled.
    phase: str | None
    #: What a cancelled run has to show.
    partial_progress: object

    def __init__(
        self,
        message: object,
        *,
        category: Category = "USER_CODE",
        reason: str | None = None,
        retryable: bool | None = None,
        stack_trace: str | None = None,
        phase: str | None = None,
        partial_progress: object = None,
    ) -> None:
        self.message = cut(str(message), MESSAGE_BYTES_MAX)
        reason = None if reason is None else cut(str(reason), MESSAGE_BYTES_MAX)
        phase = None if phase is None else cut(str(phase), MESSAGE_BYTES_MAX)
        retryable = None if retryable is None else bool(retryable)
        super().__init__(self.message, code=reason, retryable=retryable)
        self.category = category
        self.reason = reason
        self.stack_trace = stack_trace
        self.is_hand_back = False
        self.phase = phase
        self.partial_progress = partial_progress

    def __str__(self) -> str:
        return self.message

    @classmethod
    def permanent(cls, message: object) -> Failure:
        """The code failed and would fail again."""
        return Failure(message, retryable=False)

    @classmethod
    def data(cls, message: object) -> Failure:
        """The input is wrong. Not retried."""
        return Failure(message, category="DATA_QUALITY")

    @classmethod
    def config(cls, message: object) -> Failure:
        """The worker is set up wrongly. Not retried."""
        return Failure(message, category="CONFIGURATION")

    @classmethod
    def infra(cls, message: object) -> Failure:
        """Something outside did not work. Retried."""
        return Failure(message, category="INFRASTRUCTURE")

    @classmethod
    def timeout(cls, message: object) -> Failure:
        """Something took too long. Retried."""
        return Failure(message, category="TIMEOUT")

    @classmethod
    def cancelled(cls, message: object = "stopped as requested", *, phase: str | None = None) -> Failure:
        """The code stopped because it was told to."""
        return Failure(message, category="CANCELLED", phase=phase)

    @classmethod
    def hand_back(cls, message: object) -> Failure:
        """The attempt is handed back: another worker gets the task, and it loses none of its attempts."""
        failure = Failure(message, category="INFRASTRUCTURE", retryable=True)
        failure.is_hand_back = True
        return failure

    @property
    def is_retryable(self) -> bool:
        """Whether another try can help."""
        return self.category in _RETRIED if self.retryable is None else self.retryable

    def to_json(self) -> dict[str, Any]:
        """The form in which it is recorded."""
        json: dict[str, Any] = {"category": self.category, "message": self.message}
        if self.reason is not None:
            json["reason"] = self.reason
        if self.retryable is not None:
            json["retryable"] = self.retryable
        return json


class StepFailed(Failure):
    """A step failed, after its last try."""


class CallFailed(Failure):
    """A run that was called failed, was cancelled, or returned something else."""


def of_exception(error: BaseException) -> Failure:
    """The failure that an exception of user code stands for."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, _json.Unwritable):
        return unwritable(error)
    text = str(error)
    name = type(error).__name__
    return Failure(f"{name}: {text}" if text else name)


def unwritable(error: _json.Unwritable) -> Failure:
    """A result that cannot be recorded, in this attempt or another one."""
    if error.is_too_large:
        return Failure(error, reason="RESULT_TOO_LARGE", retryable=False)
    return Failure(f"no JSON form: {error}", reason="RESULT_UNWRITABLE", retryable=False)


def from_json(kind: type[Failure], json: Any, category: Category = "USER_CODE") -> Failure:
    """Reads a recorded failure."""
    return kind(
        json.get("message") or "",
        category=json.get("category") or category,
        reason=json.get("reason"),
        retryable=json.get("retryable"),
    )


def cut(text: str, bytes_max: int) -> str:
    """A text that fits, cut between characters, in Unicode that can be sent."""
    if len(text) * 4 <= bytes_max and text.isascii():
        return text
    return text.encode("utf-8", "replace")[:bytes_max].decode("utf-8", "ignore")
