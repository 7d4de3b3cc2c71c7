"""Calls from any thread to the loop of one thread: those that come close together share one wake-up.

A wake-up writes to a socket, which gives up the interpreter lock; one for each call would cost more than the calls. So after
one wake-up the loop looks again by itself, every `spacing` seconds, until it finds nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any


class Mailbox:
    """What a loop will do soon, in the order in which it was put."""

    def __init__(self, loop: asyncio.AbstractEventLoop, spacing: float = 0.0) -> None:
        self._loop = loop
        self._spacing = spacing
        self._calls: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
        #: Whether the loop will read without being told.
        self._is_awake = False

    def put(self, act: Callable[..., Any], *args: Any) -> None:
        """Calls `act(*args)` on the loop's thread. After the loop is closed nothing is done: the worker has ended."""
        self._calls.append((act, args))
        if not self._is_awake:
            self._wake()

    def put_later(self, act: Callable[..., Any], *args: Any) -> None:
        """The same, for one who puts more at once and calls `flush` at the end."""
        self._calls.append((act, args))

    def flush(self) -> None:
        """Lets the loop know what was put."""
        if self._calls and not self._is_awake:
            self._wake()

    def _wake(self) -> None:
        self._is_awake = True
        try:
            self._loop.call_soon_threadsafe(self._look)
        except RuntimeError:
            pass

    def _look(self) -> None:
        """Makes the calls. Looks again later if there were some, and waits for a wake-up if there were none."""
        if self._spacing and self._calls:
            self._loop.call_later(self._spacing, self._look)  # before reading, which may fail
            self.read()
            return
        self._is_awake = False  # before reading: what is put from now on wakes again
        self.read()

    def read(self) -> None:
        """Makes the calls. Only on the loop's thread."""
        calls = self._calls
        while calls:
            act, args = calls.popleft()
            act(*args)
