"""The script makes each copy once, although its worker is killed between two of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import EXAMPLES, PATIENCE, Scene, eventually
from tenure import Kind, RunFailed

RESIZE: Kind[dict[str, object], dict[str, object]] = Kind(
    "resize", queue="images", input=dict[str, object], output=dict[str, object], lease=2
)
SCALE = EXAMPLES / "images/scale.py"
#: Scales, and notes that it did. At width 20 it first waits until there is a file `go`.
NOTING = """#!/bin/sh
echo "$3" >>scaled.txt
while [ "$3" = 20 ] && [ ! -e go ]; do sleep 0.02; done
exec "{python}" "{scale}" "$@"
"""


@pytest.fixture
def studio(scene: Scene) -> Scene:
    (scene.folder / "in.ppm").write_bytes(b"P6 40 30 255\n" + bytes(range(240)) * 15)
    program = scene.folder / "noting.sh"
    program.write_text(NOTING.format(python=sys.executable, scale=SCALE))
    program.chmod(0o755)
    scene.variables["RESIZE"] = "./noting.sh"
    return scene


def work(studio: Scene) -> subprocess.Popen[bytes]:
    tenure = os.environ["TENURE_BINARY"]
    return studio.start(tenure, "work", "--queue", "images", "--exec", EXAMPLES / "images/resize.sh", until="works on")


def size_of(picture: Path) -> list[bytes]:
    return picture.read_bytes().split(maxsplit=4)[1:3]


def test_a_copy_that_is_recorded_is_not_made_again(studio: Scene) -> None:
    run = studio.client.submit(RESIZE, {"image": "in.ppm", "widths": [10, 20, 30]})
    first = work(studio)
    eventually("the second copy to begin", lambda: studio.lines("scaled.txt")[1:])
    first.kill()
    first.wait()
    (studio.folder / "go").touch()
    work(studio)
    copies = [{"width": width, "file": f"in-{width}.ppm"} for width in (10, 20, 30)]
    assert run.result(timeout=PATIENCE) == {"image": "in.ppm", "copies": copies}
    # 20 was under way when the worker died, so it was begun twice; 10 was recorded.
    assert studio.lines("scaled.txt") == ["10", "20", "20", "30"]
    assert size_of(studio.folder / "in-20.ppm") == [b"20", b"15"]
    assert sorted(path.name for path in studio.folder.glob("*.part.*")) == []


def test_an_image_that_is_not_there_is_not_tried_again(studio: Scene) -> None:
    work(studio)
    run = studio.client.submit(RESIZE, {"image": "nothing.ppm", "widths": [10]})
    with pytest.raises(RunFailed) as failed:
        run.result(timeout=PATIENCE)
    assert (failed.value.category, failed.value.attempt) == ("DATA_QUALITY", 1)
