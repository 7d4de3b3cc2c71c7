"""Runs `async def` tasks on a loop, with one asyncio task for as many of them as end without waiting.

A short task ends in its first step, and making an asyncio task for it costs more than running it. So a runner runs one
attempt after the other. As soon as one waits, the runner is this attempt's alone, and another one takes the rest.

What an attempt leaves behind ends its runner too, so that the next attempt has a task and a context that nothing changed:
a context variable that it set, or a cancellation.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any

from ._attempt import Attempt
from ._current import current_context

#: A runner that goes on for longer lets the loop look at everything else.
TURN_SECONDS = 0.002


class Runners:
    """The attempts of one worker that run on its loop. Belongs to that loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        run: Callable[[Attempt], Coroutine[Any, Any, None]],
        flush: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._run = run
        #: Called when no attempt that could end at once is left.
        self._flush = flush
        self._waiting: deque[Attempt] = deque()
        self._has_runner = False
        #: Whose first step this is; None when that is over.
        self._turn: asyncio.Task[None] | None = None

    def add(self, attempt: Attempt) -> None:
        """Runs the code of an attempt soon."""
        self._waiting.append(attempt)
        if not self._has_runner:
            self._start()

    def _start(self) -> None:
        """Starts a runner. What it leaves, because an attempt waits, gets another one."""
        self._has_runner = True
        self._loop.create_task(self._serve())  # what it runs holds it, as `on_stop`
        self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """The runner ended or waits."""
        self._flush()
        self._has_runner, self._turn = False, None
        if self._waiting:
            self._start()

    async def _serve(self) -> None:
        # Not what `create_task` returned: an eager factory takes this step before that returns.
        runner = self._turn = asyncio.current_task()
        assert runner is not None, "a runner is a task"
        end = time.monotonic() + TURN_SECONDS
        before = _context()
        while self._waiting:
            attempt = self._waiting.popleft()
            attempt.on_stop = runner.cancel
            await self._run(attempt)
            attempt.on_stop = None
            if self._turn is not runner:  # it waited
                self._flush()
                return
            if runner.cancelling() or not _is_unchanged(before) or time.monotonic() > end:
                return


def _context() -> Context:
    """What the code of an attempt finds, and leaves, apart from its own `ctx`."""
    current_context.set(None)
    return copy_context()


def _is_unchanged(before: Context) -> bool:
    try:
        return _context() == before
    except Exception:  # a value that cannot be compared
        return False
