"""What was recorded: the operations that the code must ask for, in order, and the results that it will be given.

Each branch has its own order, so replay does not depend on the order in which branches finished. Results are found by key.
Where two results race, the one that was committed first wins, in a replay as in the first execution.

Keys are `branch/name#count`, with a part after the count where an operation records several things (`charge#1.2`).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ._stop import Difference, Seen

#: The coordinator's limit of a key.
KEY_BYTES_MAX = 128
#: The longest part that a key may get, also as the key of a wait.
_PART_BYTES = len("wait:") + len(".100.wait")
#: Names that a step cannot have: they are keys of another kind.
RESERVED = frozenset({"sleep", "savepoint"})
TIMEOUT = "timeout"
#: Names that were looked at, because a program uses the same few again and again.
NAMES_KEPT = 1024

_NAME = re.compile(r"[A-Za-z0-9._-]+\Z")


@dataclass(slots=True)
class Checkpoint:
    """One recorded result."""

    key: str
    outcome: str
    result: Any = None
    error: Any = None
    input_digest: str | None = None
    #: Milliseconds since 1970, by the coordinator's clock.
    recorded_at: int = 0
    savepoint: bool = False


@lru_cache(NAMES_KEPT)
def is_name(name: str) -> bool:
    """Whether steps, signals, approvals, children, branches and labels can have this name."""
    return _NAME.match(name) is not None and name not in RESERVED


def fits(key: str) -> bool:
    """Whether the coordinator's tables can hold the key, with its longest part."""
    return len(key) + _PART_BYTES <= KEY_BYTES_MAX


def joined(branch: str, name: str) -> str:
    """A name inside a branch. The function's own branch is empty."""
    return f"{branch}/{name}" if branch else name


def parse(key: str) -> tuple[str, str, int]:
    """Branch, operation and count of a recorded key. A key that no engine wrote is an operation of its own."""
    path, mark, tail = key.rpartition("#")
    digits = tail.partition(".")[0]
    if not mark or not digits.isdecimal():
        return "", key, 0
    return path.rpartition("/")[0], f"{path}#{digits}", int(digits)


def is_patch(operation: str) -> bool:
    """Whether a key is that of a version marker, which replay may skip."""
    return operation.rpartition("/")[2].startswith("patched:")


@dataclass(slots=True)
class _Expected:
    operation: str
    input_digest: str | None
    position: int


class Unlike(Exception):
    """The record has something else than what the code asks for."""

    def __init__(self, difference: Difference, recorded: Seen) -> None:
        super().__init__(difference)
        self.difference: Difference = difference
        self.recorded = recorded


class History:
    """The record of one run, as far as the code has not read it."""

    def __init__(self, checkpoints: Iterable[Checkpoint]) -> None:
        self._expected: dict[str, deque[_Expected]] = {}
        self._results: dict[str, tuple[int, Checkpoint]] = {}
        self._parts: dict[str, list[str]] = {}
        self._length = 0
        known: set[str] = set()
        for checkpoint in checkpoints:
            if checkpoint.key.startswith("wait:"):
                continue  # what satisfied a wait stands in checkpoints of its items
            branch, operation, _ = parse(checkpoint.key)
            if operation not in known:
                known.add(operation)
                expected = _Expected(operation, checkpoint.input_digest, self._length)
                self._expected.setdefault(branch, deque()).append(expected)
            self.arrive(checkpoint)

    def arrive(self, checkpoint: Checkpoint) -> None:
        """Keeps a result until the code reads it."""
        position = self._length
        self._length += 1
        key = checkpoint.key
        if checkpoint.outcome == "STARTED" or key in self._results:
            return
        self._results[key] = (position, checkpoint)
        operation = parse(key)[1]
        if operation != key:
            self._parts.setdefault(operation, []).append(key)

    def enter(self, branch: str, key: str, input_digest: str | None) -> bool:
        """Whether this operation is recorded. Raises `Unlike` if the record has another one here.

        A version marker that the code no longer asks for is skipped: code that differs after it is found at the next
        operation.
        """
        queue = self._expected.get(branch)
        if queue is None:
            return False
        while queue and is_patch(queue[0].operation) and queue[0].operation != key:
            queue.popleft()
        recorded = queue.popleft() if queue else None
        if not queue:
            del self._expected[branch]
        if recorded is None:
            return False
        seen = Seen(recorded.operation, recorded.input_digest)
        if recorded.operation != key:
            raise Unlike("operation", seen)
        if recorded.input_digest != input_digest:
            raise Unlike("input", seen)
        return True

    def is_over(self, branch: str) -> bool:
        """Whether the record of this branch has come to its end, and what follows is new."""
        return all(is_patch(each.operation) for each in self._expected.get(branch, ()))

    def is_next(self, branch: str, operation: str) -> bool:
        """Whether this operation comes next, apart from version markers before it."""
        for each in self._expected.get(branch, ()):
            if each.operation == operation:
                return True
            if not is_patch(each.operation):
                return False
        return False

    def has(self, key: str) -> bool:
        """Whether a result is here."""
        return key in self._results

    def take_first(self, keys: Iterable[str]) -> Checkpoint | None:
        """Takes out the result that was committed first. It is read once."""
        here = [key for key in keys if key in self._results]
        if not here:
            return None
        return self._results.pop(min(here, key=lambda key: self._results[key][0]))[1]

    def take(self, key: str) -> Checkpoint | None:
        """Takes out the result of a key."""
        found = self._results.pop(key, None)
        return found[1] if found else None

    def forget_parts(self, operation: str) -> None:
        """Forgets the tries and timers of an operation that is over."""
        for part in self._parts.pop(operation, ()):
            self._results.pop(part, None)

    def unreached(self) -> tuple[str, Seen] | None:
        """The earliest recorded operation that the code has not asked for."""
        if not self._expected:
            return None
        every = [(each, branch) for branch, queue in self._expected.items() for each in queue]
        missing = [(each.position, branch, each) for each, branch in every if not is_patch(each.operation)]
        if not missing:
            return None
        _, branch, first = min(missing, key=lambda one: one[0])
        return branch, Seen(first.operation, first.input_digest)
