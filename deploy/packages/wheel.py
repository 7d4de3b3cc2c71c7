"""The wheel `tenure-server`: the binary for `pip install`, as the command `tenure` and as `python -m tenure_server`."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

MODULE = '''"""The binary of Tenure, as a Python package. `tenure` is on the path of the environment that it is installed in."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

__version__ = "{version}"


def binary() -> Path:
    """The installed program: where this environment has its scripts, or where `pip install --user` puts them."""
    schemes = (None, sysconfig.get_preferred_scheme("user"))
    folders = [sysconfig.get_path("scripts", *([] if scheme is None else [scheme])) for scheme in schemes]
    # `pip install --target` has them beside the packages.
    folders.append(str(Path(__file__).resolve().parents[1] / "bin"))
    for folder in folders:
        program = Path(folder) / "tenure"
        if program.is_file():
            return program
    raise FileNotFoundError(f"the program `tenure` is in none of {{', '.join(folders)}}; install tenure-server again")


def main() -> None:
    """Becomes the program, with the arguments of this process."""
    program = str(binary())
    os.execv(program, [program, *sys.argv[1:]])
'''

MAIN = """from tenure_server import main

main()
"""

METADATA = """Metadata-Version: 2.4
Name: tenure-server
Version: {version}
Summary: The server and command line of Tenure, as one binary: work that is done and recorded exactly once.
License-Expression: MIT OR Apache-2.0
License-File: LICENSE-MIT
License-File: LICENSE-APACHE
Requires-Python: >=3.11
Description-Content-Type: text/markdown

`tenure dev` starts a server, `tenure work --queue demo --exec cat` a worker, and
`tenure submit hello --queue demo --input '{{"n":1}}' --wait` submits a run.
The package `tenure` is the SDK for Python.
"""

WHEEL = """Wheel-Version: 1.0
Generator: tenure-dist
Root-Is-Purelib: false
"""

EXECUTABLE = 0o100755
ORDINARY = 0o100644
# The first time that a zip archive can hold; the same content gives the same bytes.
TIME = (1980, 1, 1, 0, 0, 0)


def write(out: Path, version: str, tag: str, binary: Path, licences: list[Path], level: int) -> Path:
    info = f"tenure_server-{version}.dist-info"
    tags = "".join(f"Tag: py3-none-{one}\n" for one in tag.split("."))
    files: list[tuple[str, bytes, int]] = [
        ("tenure_server/__init__.py", MODULE.format(version=version).encode(), ORDINARY),
        ("tenure_server/__main__.py", MAIN.encode(), ORDINARY),
        (f"tenure_server-{version}.data/scripts/tenure", binary.read_bytes(), EXECUTABLE),
        (f"{info}/METADATA", METADATA.format(version=version).encode(), ORDINARY),
        (f"{info}/WHEEL", (WHEEL + tags).encode(), ORDINARY),
        *((f"{info}/licenses/{licence.name}", licence.read_bytes(), ORDINARY) for licence in licences),
    ]
    record = "".join(f"{name},sha256={digest(data)},{len(data)}\n" for name, data, _ in files)
    files.append((f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode(), ORDINARY))
    path = out / f"tenure_server-{version}-py3-none-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for name, data, mode in files:
            entry = zipfile.ZipInfo(name, TIME)
            entry.external_attr = mode << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data, compresslevel=level)
    return path


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
