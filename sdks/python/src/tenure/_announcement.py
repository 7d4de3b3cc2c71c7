"""What a worker tells of itself with its polls: the kinds that it serves, with the schemas of their inputs and outputs.

It is a description, which grants nothing and filters nothing, except for runs that stay with a build. It goes out once; later polls name it. A coordinator that has
forgotten it asks for it again, and one that does not know of it is polled without.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from typing import Any

from . import _json
from ._calls import Address
from ._voice import voice
from .errors import Refused, Setup
from .task import Task

#: The coordinator's limits.
KINDS_MAX = 256
SCHEMA_BYTES_MAX = 16 * 1024
ANNOUNCEMENT_BYTES_MAX = 128 * 1024
ID_DIGITS = 32
_BUILD_ID = re.compile(r"[A-Za-z0-9._:/-]{1,128}")


class Announcement:
    """The announcement of one worker, and which coordinators know it."""

    def __init__(self, tasks: Iterable[Task[..., Any]], has_codec: bool = False) -> None:
        self._content = _content(list(tasks), has_codec)
        self._known: set[Address] = set()
        self._refused: set[Address] = set()

    def members(self, address: Address) -> dict[str, Any]:
        """What a poll of this coordinator has of it."""
        if self._content is None or address in self._refused:
            return {}
        return {"announced": self._content["id"]} if address in self._known else {"announce": self._content}

    def answered(self, address: Address, answer: Any) -> None:
        """A poll with these members was answered."""
        if answer.get("announceAgain"):
            self._known.discard(address)
        else:
            self._known.add(address)

    def is_refused(self, address: Address, error: Refused) -> bool:
        """Whether the poll may have been refused because of its announcement: then it is tried without, now and later.

        An older coordinator names the member in `field`, or in its message alone.
        """
        if error.code != "invalid_argument" or not self.members(address):
            return False
        if error.field not in (None, "announce", "announced"):
            voice.warning("the coordinator refused what this worker tells of its kinds: %s", error)
        self._refused.add(address)
        return True


def _content(tasks: list[Task[..., Any]], has_codec: bool) -> dict[str, Any] | None:
    """The kinds with their schemas; without schemas if they are too large; None if there are too many kinds."""
    shared = _build()
    _check_builds(tasks, shared)
    if not 1 <= len(tasks) <= KINDS_MAX:
        return None
    # With a codec, nothing that is stored looks like the schema of the plain value.
    content = {**shared, "kinds": [_named(task) if has_codec else _described(task) for task in tasks]}
    if len(_json.canonical(content)) > ANNOUNCEMENT_BYTES_MAX:
        content = {**shared, "kinds": [_named(task) for task in tasks]}
    return {"id": hashlib.sha256(_json.canonical(content)).hexdigest()[:ID_DIGITS], **content}


def _build() -> dict[str, Any]:
    build = os.environ.get("TENURE_BUILD_ID")
    if not build:
        return {}
    if not _BUILD_ID.fullmatch(build):
        raise Setup(f"TENURE_BUILD_ID is `{build}`", next_step="use 1 to 128 letters, digits and . _ : / -")
    return {"buildId": build}


def _check_builds(tasks: list[Task[..., Any]], build: dict[str, Any]) -> None:
    """Runs of a kind can stay with a build only if the coordinator is told which one this is."""
    kind = next((task.kind for task in tasks if task.builds is not None), None)
    if kind is None:
        return
    said = f"`{kind}` says which builds may continue its runs"
    if not build:
        raise Setup(f"{said}, but this worker has no build", next_step="set TENURE_BUILD_ID")
    if len(tasks) > KINDS_MAX:
        raise Setup(f"{said}, but more than {KINDS_MAX} kinds cannot be announced", next_step="use several workers")


def _named(task: Task[..., Any]) -> dict[str, Any]:
    return {"kind": task.kind} if task.builds is None else {"kind": task.kind, "builds": task.builds}


def _described(task: Task[..., Any]) -> dict[str, Any]:
    described = _named(task)
    for name, make in (("inputSchema", task.input_schema), ("outputSchema", task.output_schema)):
        try:
            schema = _json.payload(make())
        except Exception:  # a type that cannot be described is not a reason not to work
            continue
        if isinstance(schema, dict) and len(_json.canonical(schema)) <= SCHEMA_BYTES_MAX:
            described[name] = schema
    return described
