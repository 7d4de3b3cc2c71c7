"""The context of a task: what it is, how much it may use, and whether it must stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import MutableMapping
from datetime import datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from . import _json
from ._lease import Lease, StopReason
from ._log import level_word, text_of
from .errors import Setup
from .failure import MESSAGE_BYTES_MAX, cut
from .options import Left, spend_of

if TYPE_CHECKING:
    from .client import Client

_LOGGER = logging.getLogger("tenure")


class Ctx:
    """Passed first to a task with `bind=True`, and found by `tenure.current()`."""

    __slots__ = ("_client", "_envelope", "_lease", "state", "trace")

    def __init__(
        self,
        envelope: Any,
        lease: Lease,
        client: Any = None,
        state: SimpleNamespace | None = None,
        trace: str | None = None,
    ) -> None:
        self._envelope = envelope
        self._lease = lease
        self._client = client
        #: What the start-up hooks of the worker made.
        self.state: SimpleNamespace = state if state is not None else SimpleNamespace()
        #: The `traceparent` of this attempt's span; None if the run has none.
        self.trace: str | None = trace

    @property
    def run_id(self) -> str:
        """The run."""
        return str(self._envelope["runId"])

    @property
    def task_id(self) -> str:
        """The task of the run."""
        return str(self._envelope["taskId"])

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return int(self._envelope["attempt"])

    @property
    def fence(self) -> int:
        """Larger in every attempt: a store that remembers the largest one can refuse a late worker."""
        return int(self._envelope["fence"])

    @property
    def kind(self) -> str:
        """The name of the task on the wire."""
        return str(self._envelope["kind"])

    @property
    def queue(self) -> str:
        """Where the run waited."""
        return str(self._envelope["queue"])

    @property
    def stage(self) -> str | None:
        """The step of a plan that this attempt is."""
        stage = self._envelope.get("stage")
        return None if stage is None else str(stage)

    @property
    def deadline(self) -> datetime | None:
        """When the run fails if it has not ended."""
        text = self._envelope.get("deadline")
        return None if text is None else _json.read_time(text)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the run."""
        return dict(self._envelope.get("labels") or {})

    @property
    def client(self) -> Client:
        """A client of the same coordinator. Raises `Setup` where there is none: in pushed work and in tests."""
        if self._client is None:
            raise Setup("no client is known here", next_step="make a Client() of your own")
        client: Client = self._client()
        return client

    @property
    def left(self) -> Left | None:
        """What is left of the run's budget, as the worker heard last; None without a budget."""
        return self._lease.left

    @property
    def cancelled(self) -> bool:
        """Whether the code must stop, for whatever reason."""
        return self._lease.stop_reason is not None or not self._lease.check()

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the code must stop."""
        self._lease.check()
        return self._lease.stop_reason

    def wait_cancelled(self, timeout: float | None = None) -> bool:
        """Blocks until the code must stop, at most `timeout` seconds. Whether it must. For `def` tasks."""
        return self._lease.wait(timeout)

    def progress(self, percent: float | None = None, message: str | None = None) -> None:
        """Says how far the work is. It travels with heartbeats, at most every three seconds."""
        said = None if message is None else cut(str(message), MESSAGE_BYTES_MAX).replace("\0", "\ufffd")
        self._lease.progress = (None if percent is None else min(100.0, max(0.0, float(percent))), said)
        self._lease.news = True

    def spend(self, *, tokens: int = 0, cost_micros: int = 0, tool_calls: int = 0) -> None:
        """Adds to what this attempt used of the run's budget."""
        self._lease.spend(spend_of(tokens, cost_micros, tool_calls))

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry `run_id`, `attempt` and `kind`. What it logs is also kept with the attempt.

        The coordinator keeps the newest 64 KiB of an attempt: see `tenure runs show --logs`. Records below INFO go there only
        if the logger is enabled for them, and nothing goes there from a worker with a codec.
        """
        return _CtxLog(log_extra(self._envelope), self._lease)

    def __repr__(self) -> str:
        return f"<ctx of {self.kind} {self.run_id}, attempt {self.attempt}>"


class _CtxLog(logging.LoggerAdapter[logging.Logger]):
    def __init__(self, extra: dict[str, Any], lease: Lease) -> None:
        super().__init__(_LOGGER, extra)
        self._lease = lease

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if level >= logging.INFO or self.isEnabledFor(level):
            self._lease.log_line(level_word(level), text_of(msg, args, kwargs.get("exc_info")))
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1  # this method is not where it was logged
        super().log(level, msg, *args, **kwargs)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


def log_extra(envelope: Any) -> dict[str, Any]:
    """What log records say of an attempt."""
    return {"run_id": envelope["runId"], "attempt": envelope["attempt"], "kind": envelope["kind"]}


def is_cancellation(error: BaseException) -> bool:
    """Whether an exception is how asyncio tells code to stop."""
    return isinstance(error, asyncio.CancelledError)
