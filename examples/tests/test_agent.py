"""The agent thinks, uses tools, asks a person before it pays, and halts at its budget."""

from __future__ import annotations

import re
import sys

import pytest
from conftest import EXAMPLES, PATIENCE, Scene
from tenure import Budget, RunFailed, RunHandle

sys.path.insert(0, str(EXAMPLES / "agent"))
from agent import Ticket, support

TICKET = Ticket(7, "The lamp arrived broken.")


@pytest.fixture
def agents(scene: Scene) -> Scene:
    scene.python("agent/model.py", "0", until="thinks at")
    url = re.search(r"http\S+", (scene.folder / "program-0.log").read_text())
    assert url is not None
    scene.variables["MODEL_URL"] = url[0]
    return scene


def refunds(scene: Scene) -> list[dict[str, object]]:
    return scene.json_lines("refunds.jsonl")


def keys_of(run: RunHandle[str]) -> list[str]:
    return [step["key"] for step in run.steps() if re.match("think|look|refund", step["key"])]


def test_a_refund_waits_for_a_person_and_is_made_once(agents: Scene) -> None:
    worker = agents.python("agent/agent.py")
    run = agents.client.submit(support, TICKET)
    question = agents.question(run.id)
    assert question["subject"] == "Refund order 7 with 4900 cents"
    assert refunds(agents) == []
    # The worker dies while a person thinks; another one goes on.
    worker.kill()
    agents.python("agent/agent.py")
    agents.approver("ann").approvals.decide(question["approvalId"], "APPROVED", digest=question["digest"])
    assert run.result(timeout=PATIENCE) == "I am sorry. Your money is on its way."
    assert [(each["order"], each["cents"]) for each in refunds(agents)] == [(7, 4900)]
    assert keys_of(run) == ["think#1", "look_up_order#1", "think#2", "refund#1", "think#3"]
    assert run.status()["durable"]["spend"] == {"costMicros": 0, "tokens": 2100, "toolCalls": 2}


def test_a_rejection_is_told_to_the_model(agents: Scene) -> None:
    agents.python("agent/agent.py")
    run = agents.client.submit(support, TICKET)
    question = agents.question(run.id)
    agents.approver("bea").approvals.decide(
        question["approvalId"], "REJECTED", digest=question["digest"], comment="it was not our lamp"
    )
    assert run.result(timeout=PATIENCE).endswith("a person refused: it was not our lamp.")
    assert refunds(agents) == []


def test_the_thought_that_crosses_the_budget_halts_the_run(agents: Scene) -> None:
    agents.python("agent/agent.py")
    run = agents.client.submit(support.options(budget=Budget(tokens=1000)), TICKET)
    with pytest.raises(RunFailed) as halted:
        run.result(timeout=PATIENCE)
    assert halted.value.state == "halted"
    assert keys_of(run) == ["think#1", "look_up_order#1", "think#2"]
