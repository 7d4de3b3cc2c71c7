"""The schedule is put in force once, its runs share the warehouse, and a burst of refreshes is one report."""

from __future__ import annotations

import pytest
from conftest import EXAMPLES, PATIENCE, Scene

PROGRAM = EXAMPLES / "build/reports/reports.js"


@pytest.fixture
def reports(scene: Scene) -> Scene:
    scene.run("node", PROGRAM, "schedule")
    return scene


def test_the_schedule_may_be_put_in_force_again(reports: Scene) -> None:
    before = reports.client.schedules.get("nightly-reports")
    reports.run("node", PROGRAM, "schedule")
    after = reports.client.schedules.get("nightly-reports")
    assert (before["scheduleId"], after["cron"], after["timeZone"]) == (
        after["scheduleId"],
        "0 3 * * *",
        "Europe/Berlin",
    )


def test_a_night(reports: Scene) -> None:
    triggered = reports.client.schedules.trigger("nightly-reports")
    reports.start("node", PROGRAM, "work")
    run = reports.client.run(triggered["runId"])
    held = []
    while run.status()["state"] in ("queued", "running", "waiting"):
        held += [(key["held"], key["limit"]) for key in reports.client.queues.flow_keys() if key["key"] == "warehouse"]
    assert run.result(timeout=PATIENCE) == {"region": "north", "total": 4300, "failed": ["empty-north"]}
    done = sorted(line.split()[0] for line in reports.lines("reports.txt"))
    assert done == ["acme-north", "brick-north", "crane-north", "delta-north"]
    assert held, "the reports share a flow key"
    assert all(slots <= 2 and limit == 2 for slots, limit in held)


def test_a_burst_of_refreshes_is_one_report(reports: Scene) -> None:
    ids = reports.run("node", PROGRAM, "refresh", "acme", "acme", "acme").split()
    reports.start("node", PROGRAM, "work")
    assert reports.client.run(ids[-1]).result(timeout=PATIENCE) == {"customer": "acme", "cents": 400}
    assert [reports.client.run(id).status()["state"] for id in ids] == ["cancelled", "cancelled", "succeeded"]
    assert reports.lines("reports.txt") == ["acme 400"]
