"""The durable functions on the front page, in Python and TypeScript: each charges once and ships when it is told to."""

from __future__ import annotations

import re
import sys

import pytest
from conftest import EXAMPLES, PATIENCE, Scene
from tenure import Kind

README = (EXAMPLES.parent / "README.md").read_text()
ORDER: Kind[int, str] = Kind("order", queue="orders", input=int, output=str)
TSC = ["--module", "nodenext", "--target", "es2022", "--lib", "es2023,esnext.disposable"]
TYPES = ["--types", "node", "--typeRoots", str(EXAMPLES / "node_modules/@types")]


def program(language: str) -> str:
    """The block with a durable function."""
    found = [block for block in re.findall(rf"^```{language}\n(.*?)^```$", README, re.M | re.S) if "durable" in block]
    assert len(found) == 1
    return str(found[0])


def start_python(scene: Scene) -> None:
    (scene.folder / "order.py").write_text(program("python"))
    scene.start(sys.executable, "order.py")


def start_typescript(scene: Scene) -> None:
    source = EXAMPLES / "build/readme.ts"
    source.write_text(program("ts"))
    scene.run("node", EXAMPLES / "node_modules/typescript/bin/tsc", "--strict", "--skipLibCheck", *TSC, *TYPES, source)
    scene.start("node", source.with_suffix(".js"))


@pytest.mark.parametrize("start", [start_python, start_typescript])
def test_an_order_is_shipped_when_it_is_approved_and_refunded_when_not(scene: Scene, start: object) -> None:
    assert callable(start)
    start(scene)
    approved, refused = scene.client.submit(ORDER, 500), scene.client.submit(ORDER, 700)
    approved.signal("approve", True)
    refused.signal("approve", False)
    assert approved.result(timeout=PATIENCE) == "shipped"
    assert refused.result(timeout=PATIENCE).startswith("refunded receipt for 700 cents under ")
    keys = [step["key"] for step in approved.steps()]
    assert [key for key in keys if key.startswith(("charge", "ship", "refund"))] == ["charge#1", "ship#1"]
