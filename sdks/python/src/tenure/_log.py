"""The lines that an attempt logs, until the coordinator has them.

They travel with the next heartbeat, checkpoint or report. A line has a number, so one that is sent twice is kept once, and one
that found no room here leaves a gap that the coordinator counts. Lines never cost the work: nothing here raises, and a
coordinator that does not know of them gets none.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections import deque
from datetime import UTC, datetime
from typing import Any

from ._json import dumps, write_time

#: What the coordinator keeps of an attempt.
BUFFER_BYTES_MAX = 64 * 1024
#: What one call carries: far below the coordinator's limit on a body, even if every character is escaped.
CALL_BYTES_MAX = 16 * 1024
#: The coordinator cuts a longer text.
TEXT_BYTES_MAX = 4 * 1024
#: What a line counts beside its text.
LINE_BYTES = 32


#: One for all buffers: it is held for a moment, and a lock for each would cost every attempt, whether it logs or not.
_LOCK = threading.Lock()


class LogBuffer:
    """Lines of one attempt. Any thread adds; the I/O thread sends."""

    __slots__ = ("_bytes", "_lines", "_next", "is_on")

    def __init__(self, is_on: bool = True) -> None:
        #: None until there was a line: most attempts log none.
        self._lines: deque[tuple[int, int, dict[str, Any]]] | None = None
        self._bytes = 0
        self._next = 1
        #: Whether the coordinator takes lines.
        self.is_on: bool = is_on

    def add(self, level: str, text: str) -> None:
        """Adds a line. The oldest gives way where there is no room."""
        encoded = text.encode("utf-8", "replace")[:TEXT_BYTES_MAX]
        kept = encoded.decode("utf-8", "ignore").replace("\0", "\ufffd")
        size = len(encoded) + LINE_BYTES
        with _LOCK:
            if not self.is_on:
                return
            if self._lines is None:
                self._lines = deque()
            line = {"n": self._next, "at": write_time(datetime.now(UTC)), "level": level, "text": kept}
            self._lines.append((self._next, size, line))
            self._next += 1
            self._bytes += size
            while self._bytes > BUFFER_BYTES_MAX:
                self._bytes -= self._lines.popleft()[1]

    def member(self, bytes_max: int = CALL_BYTES_MAX) -> tuple[str, int]:
        """The oldest lines as a member of a call, after a comma, and the number of the last; empty and 0 without any."""
        if not self._lines:
            return "", 0
        chosen: list[dict[str, Any]] = []
        with _LOCK:
            if not self.is_on:
                return "", 0
            room, last = bytes_max, 0
            for number, size, line in self._lines:
                room -= size
                if chosen and room < 0:
                    break
                chosen.append(line)
                last = number
        return f',"log":{dumps(chosen)}', last

    def arrived(self, last: int) -> None:
        """The coordinator has the lines up to this one."""
        if last == 0:
            return
        with _LOCK:
            while self._lines and self._lines[0][0] <= last:
                self._bytes -= self._lines.popleft()[1]

    def has_more(self) -> bool:
        """Whether there are lines that no call has brought."""
        return bool(self._lines)

    def turn_off(self) -> None:
        """The coordinator does not know of lines."""
        with _LOCK:
            self.is_on = False
            self._lines = None
            self._bytes = 0


def is_refused(answer: Any) -> bool:
    """Whether a call may have been refused because of its lines: then it is made again without.

    A coordinator that does not know of lines names the member in `field`, or in its message alone.
    """
    if not answer or answer.get("error") != "invalid_argument":
        return False
    field = answer.get("field")
    return field is None or any(part.partition("[")[0] == "log" for part in str(field).split("."))


def level_word(level: int) -> str:
    """A level of the standard library in the coordinator's words."""
    if level >= logging.ERROR:
        return "error"
    if level >= logging.WARNING:
        return "warn"
    if level >= logging.INFO:
        return "info"
    return "debug" if level >= logging.DEBUG else "trace"


def text_of(msg: object, args: tuple[object, ...], exc_info: Any) -> str:
    """A record as one text. Whatever is wrong with it, there is a text."""
    try:
        record = logging.LogRecord("", 0, "", 0, msg, args, None)
        text = record.getMessage()
    except Exception:
        text = str(msg)
    if not exc_info:
        return text
    found = exc_info if isinstance(exc_info, BaseException) else sys.exc_info()[1]
    return text if found is None else text + "\n" + "".join(traceback.format_exception(found)).rstrip()
