"""Threads for the code of `def` tasks and steps: started on demand, daemons, fed by one queue.

A thread cannot be stopped from outside, so none is: it keeps its slot until its code returns.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

_LOGGER = logging.getLogger("tenure")


class Pool:
    """At most `threads_max` threads. Work that finds none waits."""

    def __init__(self, threads_max: int) -> None:
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._idle = 0
        self._threads = 0
        self._threads_max = threads_max
        self._lock = threading.Lock()

    def grow(self, threads_max: int) -> None:
        """Allows more threads."""
        self._threads_max = max(threads_max, self._threads_max)

    def submit(self, work: Callable[[], None]) -> None:
        """Does the work in a thread, as soon as one is free. The work must not raise."""
        self._queue.put(work)
        if self._idle < self._queue.qsize() and self._threads < self._threads_max:
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._threads >= self._threads_max:
                return
            self._threads += 1
            name = f"tenure-{self._threads}"
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def _serve(self) -> None:
        while True:
            self._idle += 1
            work = self._queue.get()
            self._idle -= 1
            if work is None:
                return
            try:
                work()
            except BaseException:
                _LOGGER.exception("a thread of the worker failed; the task is not affected")

    def close(self) -> None:
        """Ends threads that have nothing to do."""
        for _ in range(self._threads):
            self._queue.put(None)
