"""Two queues side by side, and the move of what waits in the old one: each job is done once."""

from __future__ import annotations

import pytest
from conftest import EXAMPLES, Scene, eventually

PROGRAM = EXAMPLES / "build/from-bullmq/mails.js"
CRASH = EXAMPLES / "tests/move-and-lose-redis.mjs"


@pytest.fixture
def mails(scene: Scene, redis_url: str) -> Scene:
    scene.variables["REDIS_URL"] = redis_url
    return scene


def sent(scene: Scene) -> dict[str, list[int]]:
    """The numbers of the mails, by the worker that sent them."""
    found: dict[str, list[int]] = {"old": [], "new": []}
    for line in scene.lines("sent.txt"):
        number, _, worker = line.split()
        found[worker].append(int(number))
    return found


def test_a_queue_is_moved_while_both_work(mails: Scene) -> None:
    old = mails.start("node", PROGRAM, "old-work", until="the old worker works", WORKER="old")
    mails.start("node", PROGRAM, "work", WORKER="new")
    mails.run("node", PROGRAM, "add", "20", NEW_SHARE="50")
    eventually("20 mails", lambda: mails.lines("sent.txt")[19:])
    both = sent(mails)
    assert sorted(both["old"] + both["new"]) == list(range(20))
    assert min(len(both["old"]), len(both["new"])) > 2, "both had some"
    # The old worker is stopped, and what waits in its queue is moved.
    mails.stop(old)
    mails.run("node", PROGRAM, "add", "30", NEW_SHARE="0")
    assert int(mails.run("node", PROGRAM, "move").split()[0]) >= 10
    eventually("what waited", lambda: mails.lines("sent.txt")[29:])
    assert mails.run("node", PROGRAM, "move").strip() == "0 moved"
    # Producers sent some jobs both ways, and each was done once.
    after = sent(mails)
    assert sorted(after["old"] + after["new"]) == list(range(30))
    assert len(after["old"]) == len(both["old"])


def test_a_move_that_dies_before_the_removal_makes_no_second_run(mails: Scene) -> None:
    assert mails.run("node", CRASH).strip() == "the connection to Redis is lost"
    assert mails.run("node", PROGRAM, "move").strip() == "1 moved"
    runs = [run for run in mails.client.runs(queue="mails") if run["state"] == "queued"]
    assert len(runs) == 1
