"""The archive: the binary and what is installed with it. Completions and manual pages come from the binary itself.

It depends only on its content: names are sorted, owners are root, times are those of the last commit.
"""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
import tempfile
from pathlib import Path

# Where each shell looks for a file of which name.
COMPLETIONS = {"bash": "tenure.bash", "zsh": "_tenure", "fish": "tenure.fish"}
# Files of the repository that belong to an installation.
FILES = [
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "deploy/tenure.toml",
    "deploy/systemd/tenure.service",
    "deploy/grafana/tenure.json",
]


def write(
    out: Path,
    version: str,
    triple: str,
    binary: Path,
    root: Path,
    site: dict[str, bytes],
    time: str,
    level: int,
) -> Path:
    name = f"tenure-{version}-{triple}"
    path = out / f"{name}.tar.gz"
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", level, raw, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        documents = {f"docs/{place}": data for place, data in site.items()}
        for place, data in sorted((content(binary, root) | documents).items()):
            entry = tarfile.TarInfo(f"{name}/{place}")
            entry.size, entry.mtime = len(data), int(time)
            entry.mode = 0o755 if place == "tenure" else 0o644
            entry.uname = entry.gname = "root"
            archive.addfile(entry, io.BytesIO(data))
    return path


def content(binary: Path, root: Path) -> dict[str, bytes]:
    files = {"tenure": binary.read_bytes()}
    files |= {Path(file).name: (root / file).read_bytes() for file in FILES}
    files |= {f"completions/{COMPLETIONS[shell]}": text for shell, text in completions(binary).items()}
    return files | {f"man/man1/{page}": text for page, text in manual(binary).items()}


def completions(binary: Path) -> dict[str, bytes]:
    """The script for each shell."""
    return {shell: output([binary, "completions", shell]) for shell in COMPLETIONS}


def manual(binary: Path) -> dict[str, bytes]:
    """The pages for `man`, by the names of their files."""
    with tempfile.TemporaryDirectory() as folder:
        output([binary, "man", folder])
        return {page.name: page.read_bytes() for page in Path(folder).iterdir()}


def output(command: list) -> bytes:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
