"""Fixtures for tests of tasks and durable functions. Nothing of the SDK is imported until a fixture is used.

It stands beside the package and not in it, because pytest loads it in every run of its users, and importing a module of a
package imports the package.

- `tenure_server`: a coordinator on a free port with a store in a temporary directory, for the whole session. It needs
  the program `tenure`, in TENURE_BINARY or on the PATH.
- `flow`: makes a `FlowTest`.
- `@pytest.mark.golden("golden/*.jsonl")` with `golden_path`: runs the test once for each file.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tenure._server import Server
    from tenure.testing import FlowTest


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker."""
    config.addinivalue_line("markers", "golden(pattern): runs the test once for each golden file, as `golden_path`")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each golden file."""
    marker = metafunc.definition.get_closest_marker("golden")
    if marker is None or "golden_path" not in metafunc.fixturenames:
        return
    beside = Path(metafunc.definition.path).parent
    pattern = str(marker.args[0])
    found = sorted(glob.glob(pattern if os.path.isabs(pattern) else str(beside / pattern)))
    if not found:
        raise pytest.UsageError(f"no golden file matches {pattern}")
    metafunc.parametrize("golden_path", [Path(path) for path in found], ids=[Path(path).stem for path in found])


@pytest.fixture(scope="session")
def tenure_server() -> Iterator[Server]:
    """A coordinator with `url` and `api_key`, and `client()`."""
    from tenure._server import Server

    with Server() as server:
        yield server


@pytest.fixture
def flow() -> Callable[..., FlowTest[Any]]:
    """Makes a durable run in memory: `flow(order, 500).signal("approve", True).run()`."""
    from tenure.testing import FlowTest

    return FlowTest
