"""Why a durable run cannot go on: the code and the record differ, or the code does what no replay can repeat.

Both are defects of the function, found before anything is executed or recorded that the record does not allow. The record
stays as it is, so another build of the function can continue the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Difference: TypeAlias = Literal["operation", "input", "unreached", "unreadable"]


@dataclass(frozen=True, slots=True)
class Seen:
    """An operation, as recorded or as the code asks for it."""

    key: str
    input_digest: str | None = None


class Stop(BaseException):
    """The run stops here; nothing more is executed or recorded in this attempt.

    It is no `Exception`, so that `except Exception` in a durable function does not catch it.
    """

    def diverged(self) -> dict[str, Any]:
        """What the coordinator is told."""
        return {"branch": "", "index": 0, "recorded": "", "actual": str(self)}


class Divergence(Stop):
    """The first place at which the code and the record differ."""

    def __init__(
        self,
        difference: Difference,
        branch: str,
        index: int,
        recorded: Seen | None,
        actual: Seen | None = None,
        at: str | None = None,
        problem: str = "",
    ) -> None:
        self.difference = difference
        self.branch = branch
        self.index = index
        self.recorded = recorded
        self.actual = actual
        self.at = at
        self.problem = problem
        super().__init__(self._text())

    def diverged(self) -> dict[str, Any]:
        """What the coordinator is told."""
        recorded, actual = _key(self.recorded), _key(self.actual)
        if self.difference == "input":
            recorded, actual = _with_input(self.recorded), _with_input(self.actual)
        elif self.difference == "unreached":
            actual = "nothing: the code never reaches it"
        elif self.difference == "unreadable":
            actual = f"a type that cannot read it: {self.problem}"
        shown = f"{actual} ({self.at})" if self.at else actual
        return {"branch": self.branch, "index": self.index, "recorded": recorded, "actual": shown}

    def _text(self) -> str:
        where = f"`{self.branch}`" if self.branch else "the function's own branch"
        told = self.diverged()
        return (
            f"the function is not the one that was recorded: in {where}, operation {self.index}: recorded "
            f"{told['recorded']}, now {told['actual']}. Nothing was executed. Deploy the code that recorded the run, or "
            "keep the old path under `flow.patched` beside the new one"
        )


def _key(seen: Seen | None) -> str:
    return seen.key if seen else "nothing"


def _with_input(seen: Seen | None) -> str:
    return f"{_key(seen)} with input {(seen and seen.input_digest) or 'none'}"


class Misuse(Stop):
    """What a durable function must not do."""


def foreign_await(last: str, unbegun: list[str]) -> Misuse:
    """The function awaits something else than `flow`."""
    made = f" Made but not awaited: {', '.join(unbegun)}; use flow.all instead of asyncio.gather." if unbegun else ""
    return Misuse(
        "the function awaits something that is not `flow`, outside of a step: a replay could not repeat it. Put it "
        f"inside `flow.step`, or use `flow.sleep`, `flow.signal` or `flow.call`.{made} Last operation: {last}"
    )


def two_at_once(first: str, second: str, at: str) -> Misuse:
    """Operations of one branch overlap."""
    return Misuse(
        f"`{second}` ({at}) begins while `{first}` is not over: operations of one branch follow each other. Give parallel "
        "work a `flow.branch` each, and use the `flow` that the branch is given"
    )


def open_twice(branch: str, at: str) -> Misuse:
    """Two parallel branches have one name."""
    return Misuse(f"branch `{branch}` ({at}) is open already: parallel branches need different names")


def branch_over(branch: str, at: str) -> Misuse:
    """The context of a branch is used after its end."""
    return Misuse(f"branch `{branch}` is over, but its `flow` is used ({at}): use the outer one")


def bad_name(name: str, at: str) -> Misuse:
    """A name that no key can have."""
    return Misuse(
        f"`{name}` ({at}) is no name here: use letters, digits, `.`, `_` and `-`, up to 128 bytes with the names of the "
        "branches around it, and none of `sleep` and `savepoint`"
    )


def savepoint_in_branch(branch: str, at: str) -> Misuse:
    """Only the function itself can start over."""
    return Misuse(
        f"a savepoint in branch `{branch}` ({at}): only the function's own branch can start over, after its branches "
        "have ended"
    )


def too_many(what: str, count: int, most: int, at: str) -> Misuse:
    """More than the coordinator or the engine holds."""
    return Misuse(f"{count} {what} ({at}), the limit is {most}: split the work among runs that are called")


def not_awaited(operations: list[str]) -> Misuse:
    """Operations that the function made and left alone."""
    return Misuse(
        f"the function returned, but never awaited {', '.join(operations)}: an operation does nothing until it is "
        "awaited. Write `await`, or give it to `flow.all`"
    )


def awaited_twice(operation: str) -> Misuse:
    """One operation is used for two."""
    return Misuse(f"{operation} is awaited a second time: make a new operation each time")


def not_in_any(operation: str) -> Misuse:
    """What runs cannot be dropped."""
    return Misuse(
        f"{operation} cannot be a member of `flow.any`: what runs cannot be dropped. Use signals, sleeps, calls, "
        "approvals and deliveries there"
    )


def empty_answer() -> Misuse:
    """SDK and coordinator do not understand each other."""
    return Misuse(
        "the coordinator's answer to a wait brings nothing that was awaited and does not suspend the run: SDK and "
        "coordinator do not understand each other. Update the older one"
    )
