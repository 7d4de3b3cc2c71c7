"""Finds the context of the task or step that runs, deep in a call stack."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from .errors import Setup

if TYPE_CHECKING:
    from ._steps import Step
    from .ctx import Ctx

current_context: ContextVar[Ctx | Step | None] = ContextVar("tenure_current", default=None)


def current() -> Ctx | Step:
    """The `ctx` of the running task, or the `step` of the running step: for wrappers of LLM clients that report `spend`.

    Raises `Setup` where neither runs.
    """
    found = current_context.get()
    if found is None:
        raise Setup(
            "no task and no step runs here", next_step="call this inside a task, or inside a step of a durable function"
        )
    return found
