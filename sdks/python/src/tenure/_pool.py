"""Threads for the code of `def` tasks and steps: started on demand, daemons, fed by one queue.

Of much work that comes at once a few threads do as much as they can: more would only take the interpreter lock from each
other. If they are slow, because the work waits or computes, the rest gets threads of its own a moment later.

A thread cannot be stopped from outside, so none is: it keeps its slot until its code returns.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence

_LOGGER = logging.getLogger("tenure")

#: Threads that begin with what came together.
FIRST_THREADS = 2
#: After this time they are looked at; they are quick if they took that much.
LOOK_SECONDS = 0.001
QUICK_COUNT = 16

Later = Callable[[float, Callable[[], None]], object]


class Pool:
    """At most `threads_max` threads. Work that finds none waits."""

    def __init__(self, threads_max: int) -> None:
        self._work: deque[Callable[[], None]] = deque()
        #: Each lets one thread look for work, until there is none; None ends it.
        self._wakes: queue.SimpleQueue[bool | None] = queue.SimpleQueue()
        self._idle = 0
        self._threads = 0
        self._threads_max = threads_max
        self._lock = threading.Lock()
        self._is_watched = False

    def submit(self, work: Callable[[], None]) -> None:
        """Does the work in a thread, as soon as one is free. The work must not raise."""
        self._work.append(work)
        self._wake(1)

    def submit_many(self, work: Sequence[Callable[[], None]], later: Later) -> None:
        """The same for much at once. `later` calls something after some seconds, on the thread of the caller."""
        self._work.extend(work)
        self._wake(min(len(work), FIRST_THREADS))
        if len(work) > FIRST_THREADS and not self._is_watched:
            self._is_watched = True
            later(LOOK_SECONDS, lambda: self._watch(len(self._work), later))

    def _watch(self, before: int, later: Later) -> None:
        """Work waits that came a moment ago."""
        now = len(self._work)
        self._is_watched = now > 0
        if self._is_watched:
            if before - now < QUICK_COUNT:
                self._wake(now)
            later(LOOK_SECONDS, lambda: self._watch(now, later))

    def _wake(self, count: int) -> None:
        for _ in range(count):
            self._wakes.put(True)
            if self._idle < self._wakes.qsize() and self._threads < self._threads_max:
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
            goes_on = self._wakes.get()
            self._idle -= 1
            if goes_on is None:
                return
            self._drain()

    def _drain(self) -> None:
        while True:
            try:
                work = self._work.popleft()
            except IndexError:
                return
            try:
                work()
            except BaseException:
                _LOGGER.exception("a thread of the worker failed; the task is not affected")

    def close(self) -> None:
        """Ends threads that have nothing to do."""
        for _ in range(self._threads):
            self._wakes.put(None)
