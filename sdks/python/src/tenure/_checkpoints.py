"""Between the engine and the wire: the same values, in the shapes of either side, and calls in parts that fit.

It decides nothing. One thing is derived here: the coordinator records a wait as one checkpoint that says what satisfied it,
and the engine knows a checkpoint of each item that arrived.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from . import _json
from ._commands import Recorded, time_ms
from ._history import Checkpoint

#: Half of what the coordinator reads of one body: a call must be readable beside the rest of its batch.
PART_BYTES_MAX = 512 * 1024
#: What may travel with a report, beside its output.
RIDING_BYTES_MAX = 128 * 1024
STEPS_MAX = 100
CHILDREN_MAX = 500
EFFECTS_MAX = 100


def checkpoints_of(recorded: Iterable[Any]) -> list[Checkpoint]:
    """What the coordinator has recorded, as the engine knows it."""
    return [each for each in map(_checkpoint, recorded) if each is not None]


def _checkpoint(recorded: Any) -> Checkpoint | None:
    if recorded["kind"] == "WAIT":
        return _arrival(recorded)
    error = recorded.get("error")
    outcome = recorded["outcome"]
    if error is not None and not error.get("category"):  # the coordinator itself ends children without one
        error = {**error, "category": "CANCELLED" if outcome == "CANCELLED" else "INFRASTRUCTURE"}
    return Checkpoint(
        recorded["key"],
        outcome,
        recorded.get("result"),
        error,
        recorded.get("inputDigest"),
        time_ms(recorded["recordedAt"]),
        recorded.get("savepoint", False),
    )


def _arrival(recorded: Any) -> Checkpoint | None:
    """The item that satisfied a wait. The ends of children have checkpoints of their own."""
    wait = recorded.get("wait") or {}
    only = recorded["key"].removeprefix("wait:")
    key = wait.get("winner") or (only if "#" in only else None)
    if key is None:
        return None
    name = key.rpartition("/")[2]
    if name.startswith("child:") and not name.endswith(".timeout"):
        return None
    value = next((taken.get("payload") for taken in wait.get("signals", ()) if taken["key"] == key), None)
    # What people decided about is to an approval what its input is to a step.
    digest = value.get("digest") if name.startswith("approval:") and isinstance(value, dict) else None
    return Checkpoint(key, "SUCCEEDED", value, None, digest, time_ms(recorded["recordedAt"]))


def recorded_of(answer: Any, server_time: str) -> Recorded:
    """The answer to a call, as the engine knows it."""
    # A repeated call that ended its attempt has no lease, although another attempt may be running by now.
    has_lease = answer.get("leaseExpiresAt") is not None
    state = answer.get("state") or "running"
    if state == "running" and has_lease:
        word: Any = "running"
    else:
        word = "waiting" if state in ("running", "waiting") else "halted"
    return Recorded(
        word,
        time_ms(answer.get("recordedAt") or server_time),
        checkpoints_of(answer.get("results") or ()),
        answer.get("shouldCancel") is True,
    )


def seed_of(task_id: str) -> int:
    """The seed of a run that was submitted without one: equal in every attempt, and another one in every run."""
    return int.from_bytes(hashlib.sha256(_json.canonical(task_id)).digest()[:8], "big")


def parts_of(
    steps: list[dict[str, Any]], children: list[dict[str, Any]], wait: dict[str, Any] | None
) -> list[dict[str, Any]]:
    """One call of the engine in as many calls of the wire as the coordinator's limits need. A wait comes last."""
    if len(steps) == 1 and not children and wait is None and "effects" not in steps[0]:
        return [{"steps": steps}]  # most calls; the limit of a payload is below that of a part
    parts = _Parts()
    for step in steps:
        effects = [{**effect, "step": step["key"]} for effect in step.get("effects", ())]
        plain = {name: value for name, value in step.items() if name != "effects"}
        parts.add("steps", [plain], effects)
    for child in children:
        flat = {name: value for name, value in child.items() if name != "run"}
        parts.add("children", [{**child["run"], **flat}], [])
    if wait is not None:
        parts.add_wait(wait)
    return parts.parts


def riding_of(
    steps: list[dict[str, Any]], children: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What is recorded before a report, and what rides along with it."""
    parts = parts_of(steps, children, None)
    if parts and size_of(parts[-1]) <= RIDING_BYTES_MAX:
        return parts[:-1], parts[-1]
    return parts, {}


class _Parts:
    def __init__(self) -> None:
        self.parts: list[dict[str, Any]] = []
        self._bytes = 0

    def add(self, member: str, items: list[dict[str, Any]], effects: list[dict[str, Any]]) -> None:
        part = self._with_room_for(size_of([items, effects]), len(effects))
        part.setdefault(member, []).extend(items)
        if effects:
            part.setdefault("effects", []).extend(effects)

    def add_wait(self, wait: dict[str, Any]) -> None:
        self._with_room_for(size_of(wait), 0)["wait"] = wait

    def _with_room_for(self, size: int, effects: int) -> dict[str, Any]:
        last = self.parts[-1] if self.parts else None
        if last is None or not (
            len(last.get("steps", ())) < STEPS_MAX
            and len(last.get("children", ())) < CHILDREN_MAX
            and len(last.get("effects", ())) + effects <= EFFECTS_MAX
            and self._bytes + size <= PART_BYTES_MAX
        ):
            last = {}
            self.parts.append(last)
            self._bytes = 0
        self._bytes += size
        return last


def size_of(value: Any) -> int:
    """The bytes of a JSON value."""
    return len(_json.dumps(value).encode())
