"""The conformance kit runs beside the other tests; its cases are looked at last."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kit import Kit

#: The parameter of a test of one case, and whether the case is performed alone.
CASE = "case"
ALONE = "alone"


def place(item: pytest.Item) -> int:
    """Where a test stands: tests of cases after all others, those that judge milliseconds at the end."""
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec") or CASE not in item.callspec.params:
        return 0
    return 2 if item.get_closest_marker(ALONE) else 1


def chosen(session: pytest.Session, wanted: int) -> list[str]:
    items = [item for item in session.items if place(item) == wanted and isinstance(item, pytest.Function)]
    return [str(item.callspec.params[CASE]) for item in items]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=place)


@pytest.fixture(scope="session", autouse=True)
def kit_beside(request: pytest.FixtureRequest) -> Iterator[Kit]:
    """The cases that mostly wait: performed from the first test on."""
    kit = Kit(chosen(request.session, 1))
    kit.start()
    yield kit
    kit.close()


@pytest.fixture(scope="session")
def kit_alone(request: pytest.FixtureRequest) -> Iterator[Kit]:
    """The cases that judge milliseconds: performed when they are asked for."""
    kit = Kit(chosen(request.session, 2))
    yield kit
    kit.close()
