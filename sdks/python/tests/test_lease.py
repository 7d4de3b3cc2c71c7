"""How long a lease is trusted, by a clock that the test moves."""

from __future__ import annotations

from typing import Any

import pytest

from tenure._lease import Clock, Lease, usable
from tenure.options import Spend

SERVER = "2026-01-01T00:00:00.000Z"


class Hand(Clock):
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> float:
        return self.at


def envelope(ttl: float, interval: float) -> dict[str, Any]:
    return {"taskToken": "t", "heartbeatTimeoutMs": ttl * 1000, "heartbeatIntervalMs": interval * 1000}


def lease(clock: Hand, ttl: float = 10, interval: float = 3, sent: float | None = None) -> Lease:
    return Lease(clock, envelope(ttl, interval), clock.at if sent is None else sent)


@pytest.mark.parametrize(("ttl", "expected"), [(90, 80), (10, 8), (2, 1.5), (2.5, 1.875), (3, 1.7)])
def test_a_part_of_the_lease_is_used(ttl: float, expected: float) -> None:
    assert usable(ttl) == pytest.approx(expected)


def test_a_fresh_grant_counts_from_before_its_poll() -> None:
    clock = Hand()
    held = lease(clock, sent=98.0)
    assert held.is_proven
    assert held.valid_until == 106.0
    assert held.next_beat == 103.0


def test_an_old_poll_proves_nothing_until_a_heartbeat_is_answered() -> None:
    """S3-10: a poll of 30 s is older than a lease of 10 s; the code waits for a heartbeat."""
    clock = Hand()
    held = lease(clock, sent=70.0)
    assert not held.is_proven
    assert held.is_due(clock.at)
    clock.at = 101.0
    held.renewed(100.5, "2026-01-01T00:00:10.000Z", SERVER)
    assert held.is_proven
    assert held.valid_until == 108.5


def test_a_lease_that_is_not_proven_in_time_is_lost() -> None:
    clock = Hand()
    held = lease(clock, sent=70.0)
    clock.at = 108.0
    assert not held.check()
    assert held.stop_reason == "LeaseLost"


def test_a_lost_lease_stays_lost() -> None:
    """S3-48: the answer to an earlier heartbeat does not revive it."""
    clock = Hand()
    held = lease(clock)
    clock.at = 108.0
    assert not held.check()
    held.renewed(107.0, "2026-01-01T00:00:10.000Z", SERVER)
    assert held.stop_reason == "LeaseLost"
    clock.at = 101.0
    assert not held.check()


def test_an_older_answer_does_not_shorten_a_newer_one() -> None:
    clock = Hand()
    held = lease(clock)
    clock.at = 105.0
    held.renewed(104.0, "2026-01-01T00:00:10.000Z", SERVER)
    held.renewed(102.0, "2026-01-01T00:00:10.000Z", SERVER)
    assert held.valid_until == 112.0


def test_the_shorter_end_counts() -> None:
    """A lease that the deadline of its run cuts off ends with it, whatever the wall clocks say."""
    clock = Hand()
    held = lease(clock)
    clock.at = 101.0
    held.renewed(101.0, "2026-01-01T01:00:04.000Z", "2026-01-01T01:00:00.000Z")
    assert held.valid_until == pytest.approx(101.0 + usable(4))


def test_unanswered_heartbeats_come_sooner_and_then_slower() -> None:
    clock = Hand()
    held = lease(clock, interval=3)
    pauses = []
    for _ in range(7):
        held.unanswered()
        pauses.append(round(held.next_beat - clock.at, 3))
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.0, 3.0]


def test_progress_and_spend_are_sent_at_most_every_three_seconds() -> None:
    clock = Hand()
    held = lease(clock, ttl=90, interval=30)
    held.spend(Spend(tokens=1))
    held.spend(Spend(tokens=2))
    assert held.spent == Spend(tokens=3)
    assert not held.is_due(clock.at)
    assert held.is_due(clock.at + 3.0)


def test_the_first_reason_stands_unless_the_lease_is_lost() -> None:
    clock = Hand()
    held = lease(clock)
    held.stop("CancelRequested")
    held.stop("ShuttingDown")
    reasons = [held.stop_reason]
    held.lose("gone")
    assert [*reasons, held.stop_reason] == ["CancelRequested", "LeaseLost"]
    assert held.wait(0)
