"""Spans of time: seconds or `timedelta` outside, whole milliseconds on the wire."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypeAlias

from ._json import write_time
from .errors import Setup

Span: TypeAlias = float | timedelta
"""Seconds, or a timedelta."""


def milliseconds(span: Span, field: str) -> int:
    """A span in whole milliseconds."""
    seconds = span.total_seconds() if isinstance(span, timedelta) else span
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < 1e12:
        raise Setup(f"{span!r} is no span of time", next_step="give seconds or a timedelta", field=field)
    return round(seconds * 1000)


def seconds_of(seconds: float, minutes: float, hours: float, days: float) -> float:
    """The sum of the usual units."""
    return seconds + 60 * minutes + 3600 * hours + 86_400 * days


def instant(moment: datetime, field: str) -> str:
    """An instant as the wire has it."""
    if moment.tzinfo is None:
        raise Setup("a datetime without a time zone names no instant", next_step="give it a tzinfo", field=field)
    return write_time(moment)
