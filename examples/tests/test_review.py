"""A document is checked, read, returned, submitted again and published; the simulation says the same."""

from __future__ import annotations

import os
from typing import Any

import pytest
from conftest import EXAMPLES, Scene, eventually

REVIEW = EXAMPLES / "review/review.yaml"
DEPLOYMENT = "document-review"


def test_the_simulation_publishes_the_handbook(scene: Scene) -> None:
    played = scene.tenure("topology", "simulate", REVIEW, "--script", EXAMPLES / "review/script.yaml")
    assert "PUBLISHED" in played


@pytest.fixture
def office(scene: Scene) -> Scene:
    scene.tenure("topology", "apply", REVIEW)
    check = EXAMPLES / "review/check.py"
    scene.start(os.environ["TENURE_BINARY"], "work", "--queue", "checkers", "--exec", check, until="works on")
    return scene


def status(office: Scene, document: str) -> str:
    return str(office.client.artifacts.get(DEPLOYMENT, "document", document)["status"])


def becomes(office: Scene, document: str, wanted: str) -> None:
    eventually(f"{document} to be {wanted}", lambda: status(office, document) == wanted)


def answer(office: Scene, person: Any, subject: str, decision: str) -> None:
    def ask() -> dict[str, Any] | None:
        waiting = office.client.approvals.list(state="pending")
        return next((dict(each) for each in waiting if subject in str(each.get("subject"))), None)

    question = eventually(f"the question {subject}", ask)
    person.approvals.decide(question["approvalId"], decision, digest=question["digest"])


def test_a_document_is_returned_by_the_program_and_then_published_by_people(office: Scene) -> None:
    fields = {"title": "Handbook", "text": "Lorem ipsum.", "urgency": 1}
    office.client.artifacts.create(DEPLOYMENT, "document", "handbook", fields)
    becomes(office, "handbook", "RETURNED")
    assert list(office.client.approvals.list(state="pending")) == [], "nobody was asked"
    better = {**fields, "text": "A lease ends when it is not renewed."}
    office.client.artifacts.move(DEPLOYMENT, "document", "handbook", "SUBMITTED", fields=better)
    answer(office, office.approver("ed"), "Is it clear?", "APPROVED")
    answer(office, office.approver("lea"), "May we say this in public?", "APPROVED")
    becomes(office, "handbook", "PUBLISHED")
