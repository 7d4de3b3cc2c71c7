"""Two queues side by side, and the move of what waits in the old one: each job is done once."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import pytest
from conftest import EXAMPLES, Scene, eventually

FOLDER = EXAMPLES / "from-celery"


@pytest.fixture
def shop(scene: Scene, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The program as a module, for the producers."""
    scene.variables["CELERY_BROKER"] = f"{redis_url}/1"
    monkeypatch.setenv("CELERY_BROKER", f"{redis_url}/1")
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module("shop")
    sys.modules.pop("shop")


def old_worker(scene: Scene) -> Any:
    command = ["-m", "celery", "-A", "shop", "worker", "--queues", "letters", "--pool", "solo", "--loglevel", "INFO"]
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    path = str(FOLDER)
    return scene.start(sys.executable, *command, *quiet, until="ready.", PYTHONPATH=path, WORKER="old")


def letters(scene: Scene) -> dict[str, list[str]]:
    """The numbers of the letters, by the worker that wrote them."""
    written: dict[str, list[str]] = {"old": [], "new": []}
    for line in scene.lines("letters.txt"):
        number, _, worker = line.split()
        written[worker].append(number)
    return written


def test_a_queue_is_moved_while_both_work(scene: Scene, shop: ModuleType) -> None:
    old = old_worker(scene)
    scene.python("from-celery/shop.py", "work", WORKER="new")
    scene.python("from-celery/shop.py", "add", "20", NEW_SHARE="50").wait()
    eventually("20 letters", lambda: scene.lines("letters.txt")[19:])
    written = letters(scene)
    assert sorted(map(int, written["old"] + written["new"])) == list(range(20))
    assert min(len(written["old"]), len(written["new"])) > 2, "both had some"
    # The old worker is stopped; what producers that are not deployed yet still send waits, and is moved.
    scene.stop(old)
    for number in range(100, 110):
        shop.old_letter.apply_async((number, "late"))
    shop.old_letter.apply_async((110, "later"), eta=datetime.now(UTC) + timedelta(days=30))
    assert scene.run(sys.executable, FOLDER / "shop.py", "move").strip() == "11 moved"
    eventually("the letters that waited", lambda: scene.lines("letters.txt")[29:])
    assert sorted(map(int, letters(scene)["new"][len(written["new"]) :])) == list(range(100, 110))
    assert [run["kind"] for run in scene.client.runs(state="queued", queue="letters")] == ["shop.letter"], (
        "the one with an eta waits"
    )


def test_a_move_that_dies_between_submission_and_acknowledgement_makes_no_second_run(
    scene: Scene, shop: ModuleType
) -> None:
    shop.old_letter.apply_async((200, "once"))
    submitted: list[str] = []

    class Crash(Exception):
        pass

    def submit_and_die(client: Any, message: Any) -> str:
        submitted.append(shop.submit_message(client, message))
        raise Crash

    with pytest.raises(Crash):
        shop.move_waiting(scene.client, "letters", submit_and_die)

    def submit(client: Any, message: Any) -> str:
        submitted.append(shop.submit_message(client, message))
        return submitted[-1]

    assert shop.move_waiting(scene.client, "letters", submit) == 1
    assert len(submitted) == 2
    assert submitted[0] == submitted[1], "the same run"
