"""Log records of the I/O thread, handed to a thread of their own.

A handler belongs to the user: it may wait for a disk, a network or a lock. The thread that keeps leases must not wait with it,
so it never calls one. Records that a slow handler leaves no room for are counted and told later.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections import deque

#: Much for a worker that reports what goes wrong, and little memory.
RECORDS_MAX = 10_000
#: How long the end of a worker waits for a handler.
FLUSH_SECONDS = 1.0


class Voice:
    """Says what the I/O thread has to say. Nothing here waits for a handler but `flush`."""

    def __init__(self, name: str = "tenure") -> None:
        self._logger = logging.getLogger(name)
        self.begin()

    def begin(self) -> None:
        """Has nothing to say yet."""
        self._records: deque[logging.LogRecord] = deque()
        self._left_out = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_speaking = False

    def warning(self, text: str, *args: object) -> None:
        """Says that something may need a look."""
        self._say(logging.WARNING, text, args)

    def error(self, text: str, *args: object) -> None:
        """Says that something went wrong."""
        self._say(logging.ERROR, text, args)

    def exception(self, text: str, *args: object) -> None:
        """The same with the exception that is handled here."""
        self._say(logging.ERROR, text, args, with_exception=True)

    def handle(self, record: logging.LogRecord) -> None:
        """Passes on a record that another process made."""
        with self._changed:
            if len(self._records) >= RECORDS_MAX:
                self._left_out += 1
                return
            self._records.append(record)
            if self._thread is None or not self._thread.is_alive():  # none survives a fork
                self._thread = threading.Thread(target=self._speak, name="tenure-log", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, seconds: float = FLUSH_SECONDS) -> None:
        """Waits until everything was said, for a moment at most."""
        with self._changed:
            self._changed.wait_for(lambda: not self._records and not self._is_speaking, seconds)

    def _say(self, level: int, text: str, args: tuple[object, ...], with_exception: bool = False) -> None:
        if not self._logger.isEnabledFor(level):
            return
        error = sys.exc_info() if with_exception else None
        self.handle(self._logger.makeRecord(self._logger.name, level, __file__, 0, text, args, error))

    def _speak(self) -> None:
        while True:
            with self._changed:
                self._is_speaking = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._records)
                record, left_out = self._records.popleft(), self._left_out
                self._left_out, self._is_speaking = 0, True
            if left_out:
                self._logger.warning("%d log records were left out: a handler is slow", left_out)
            try:
                logging.getLogger(record.name).handle(record)
            except Exception:
                continue  # a handler that raises is the user's; there is nothing left to tell it with


#: One for the process, as loggers are.
voice = Voice()

if hasattr(os, "register_at_fork"):
    # A child begins anew: a thread of the parent may have held the lock, and will never let it go here.
    os.register_at_fork(after_in_child=voice.begin)
