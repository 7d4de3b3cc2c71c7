"""Every case of the conformance kit, with the subject of this package (S4-74)."""

from __future__ import annotations

from typing import Any

import pytest
from kit import Kit, listed

CASES = listed()
BESIDE = [case["case"] for case in CASES if not case["alone"]]
ALONE = [case["case"] for case in CASES if case["alone"]]
GROUPS = {"client", "worker", "durable", "webhooks", "push"}


def test_the_kit_has_cases_of_every_group() -> None:
    assert {case["case"].split("/")[0] for case in CASES} == GROUPS, "no kit: set TENURE_BINARY to a `tenure`"


@pytest.mark.parametrize("case", BESIDE)
def test_case(case: str, kit_beside: Kit) -> None:
    judge(case, kit_beside.outcome(case))


@pytest.mark.alone
@pytest.mark.parametrize("case", ALONE)
def test_case_alone(case: str, kit_alone: Kit) -> None:
    judge(case, kit_alone.outcome(case))


def judge(case: str, outcome: Any) -> None:
    assert outcome is not None, f"the kit ended without performing {case}; run ./conform --only {case}"
    told = "\n".join([*outcome["findings"], *(line[:200] for line in outcome["log"])])
    assert outcome["standing"] == "passed", f"{case}\n{told}"
