"""Calls from any thread to the loop of one thread: those that wait share one wake-up.

A wake-up writes to a socket, which gives up the interpreter lock; one for each call would cost more than the calls.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any


class Mailbox:
    """What a loop will do soon, in the order in which it was put."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
        self._is_woken = False

    def put(self, act: Callable[..., Any], *args: Any) -> None:
        """Calls `act(*args)` on the loop's thread. After the loop is closed nothing is done: the worker has ended."""
        self._calls.append((act, args))
        if not self._is_woken:
            self._is_woken = True
            try:
                self._loop.call_soon_threadsafe(self.read)
            except RuntimeError:
                pass

    def read(self) -> None:
        """Makes the calls. Only on the loop's thread."""
        self._is_woken = False  # before reading: what is put from now on wakes again
        calls = self._calls
        while calls:
            act, args = calls.popleft()
            act(*args)
