"""When a schedule submits its run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ._span import Span, milliseconds, seconds_of

Overlap = Literal["skip", "queue", "cancelOlder", "allow"]
CatchUp = Literal["one", "all"]


@dataclass(frozen=True, slots=True)
class Cron:
    """At the times of a cron expression, in a time zone."""

    expression: str
    time_zone: str | None = None
    #: What happens if the run before has not ended.
    overlap: Overlap | None = None
    #: How many of the times that were missed are made up for.
    catch_up: CatchUp | None = None
    #: How old a missed time may be.
    window: Span | None = None

    def to_json(self) -> dict[str, Any]:
        """The members of a schedule."""
        json = _policy(self.overlap, self.catch_up, self.window)
        return {"cron": self.expression, **json, **({"timeZone": self.time_zone} if self.time_zone else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """Again and again, with the same time in between."""

    seconds: float = 0
    minutes: float = 0
    hours: float = 0
    days: float = 0
    overlap: Overlap | None = None
    catch_up: CatchUp | None = None
    window: Span | None = None

    def to_json(self) -> dict[str, Any]:
        """The members of a schedule."""
        span = seconds_of(self.seconds, self.minutes, self.hours, self.days)
        return {"everyMs": milliseconds(span, "every"), **_policy(self.overlap, self.catch_up, self.window)}


def _policy(overlap: Overlap | None, catch_up: CatchUp | None, window: Span | None) -> dict[str, Any]:
    json: dict[str, Any] = {"overlap": overlap, "catchUp": catch_up}
    if window is not None:
        json["catchUpWindowMs"] = milliseconds(window, "window")
    return {name: value for name, value in json.items() if value is not None}
