"""What can go wrong between a program and a coordinator. Each error says what to do next.

`TenureError` is the base of everything that this package raises on purpose. A refusal (`Refused`) is an answer of the
coordinator; `Unreachable` and `UnknownOutcome` mean that there was none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._wire import Problem

#: Where the coordinator serves a page for each code.
_DOCS = "/errors/"

_NEXT_STEPS = {
    "unauthenticated": "check TENURE_API_KEY; `tenure keys list` shows the keys of the server",
    "forbidden": "use a key with the role that the call needs",
    "idempotency_key_reused": "give the other submission its own idempotency key",
    "quota_reached": "wait until runs have ended, or raise the quota with `tenure limits set`",
    "too_many_requests": "wait, and send fewer requests per second",
    "run_not_found": "check the run id and the workspace of the key",
    "budget_spent": "raise the budget of the workspace with `tenure budgets set`",
}


class TenureError(Exception):
    """Base of all errors of this package."""

    #: A stable word to compare with; absent if the coordinator gave none.
    code: str | None
    #: What happened.
    detail: str
    #: What to do about it.
    next_step: str | None
    #: The page that explains the code.
    docs: str | None
    #: The member of the request at fault.
    field: str | None
    #: Whether the same call may succeed later; None if the category of a failure decides.
    retryable: bool | None

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        next_step: str | None = None,
        docs: str | None = None,
        field: str | None = None,
        retryable: bool | None = False,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.next_step = next_step
        self.docs = docs
        self.field = field
        self.retryable = retryable

    def _advise(self, next_step: str, *, retryable: bool) -> None:
        """Says more precisely what to do."""
        self.next_step, self.retryable = next_step, retryable

    def __str__(self) -> str:
        text = self.detail
        if self.field:
            text += f" (in `{self.field}`)"
        if self.next_step:
            text += f"; {self.next_step}"
        if self.code:
            text += f" [{self.code}]"
        return text


class Refused(TenureError):
    """The coordinator refused the call."""

    #: The HTTP status.
    status: int
    #: How long the coordinator asks to wait, in seconds.
    retry_after: float | None

    def __init__(self, problem: Problem) -> None:
        code = problem["error"]
        status = problem["status"]
        docs = problem.get("type") or _DOCS + code.replace("_", "-")
        super().__init__(
            problem.get("message") or problem.get("detail") or code,
            code=code,
            next_step=_NEXT_STEPS.get(code) or f"read {docs}",
            docs=docs,
            field=problem.get("field"),
            retryable=status in (429, 503),
        )
        self.status: int = status
        asked = problem.get("retryAfterMs")
        self.retry_after = None if asked is None else asked / 1000


class RunRefused(Refused):
    """The coordinator accepted a batch of runs, but not this one."""


class UnknownOutcome(Refused):
    """The coordinator does not know whether the call took effect."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._advise("look at the run, or repeat the call with the same idempotency key", retryable=True)


class Unreachable(TenureError):
    """No server answered, within as many tries as the client makes."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(
            f"{url} did not answer ({why})",
            code="unreachable",
            next_step="check that the coordinator runs and that TENURE_URL is its address",
            retryable=True,
        )
        self.url: str = url


class Protocol(TenureError):
    """An answer arrived, but not one that a coordinator sends."""

    def __init__(self, url: str, status: int, why: str) -> None:
        super().__init__(
            f"{url} did not answer like a Tenure server ({why})",
            code="protocol",
            next_step="check that the address is a coordinator of a version that this package knows",
        )
        self.url: str = url
        self.status: int = status


class Setup(TenureError):
    """The call could not be made: a setting, an argument or a task that cannot be used."""

    def __init__(self, detail: str, *, next_step: str | None = None, field: str | None = None) -> None:
        super().__init__(detail, code="setup", next_step=next_step, field=field)


class TimedOut(TenureError):
    """The run has not ended in time. It is left alone."""

    def __init__(self, run_id: str, seconds: float) -> None:
        super().__init__(
            f"{run_id} has not ended within {seconds:g} s",
            code="timed_out",
            next_step="wait again with the same handle, or cancel the run",
            retryable=True,
        )
        self.run_id: str = run_id


class RunFailed(TenureError):
    """The run whose result was asked for did not succeed."""

    def __init__(self, run: Any) -> None:
        error = run.get("error") or {}
        self.run_id: str = run["runId"]
        self.state: str = run["state"]
        self.attempt: int = run["attempt"]
        self.category: str | None = error.get("category")
        self.reason: str | None = error.get("reason") or run.get("cancelReason")
        why = run.get("cancelReason")
        self.message: str = (error.get("message") or f"the run is {self.state}") + (f": {why}" if why else "")
        self.stack_trace: str | None = error.get("stackTrace")
        super().__init__(
            f"{self.run_id} {self.state} in attempt {self.attempt}: {self.message}",
            code=self.reason,
            next_step=f"`tenure runs show {self.run_id}` has its history",
        )


class OutputUnreadable(TenureError):
    """The run succeeded, but its output is not of the type that was asked for."""

    def __init__(self, run_id: str, path: str, problem: str) -> None:
        super().__init__(
            f"the output of {run_id} cannot be read {problem}",
            code="output_unreadable",
            next_step="read it with the type that the task returns, or as Any",
        )
        self.run_id: str = run_id
        #: The place inside the output.
        self.path: str = path
