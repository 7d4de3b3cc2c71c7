"""The Debian package: binary, service, settings, manual pages and completions. It starts nothing by itself."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import archive
from platform_of import Platform

CONTROL = """Package: tenure
Version: {version}
Architecture: {architecture}
Maintainer: The Tenure authors <tenure@localhost>
Section: utils
Priority: optional
{depends}Description: coordinates work that is done and recorded exactly once
 One binary with one SQLite file or a PostgreSQL database, and plain HTTP.
 Workers hold leases; only the coordinator decides what is recorded.
"""
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/tenure",
    "zsh": "usr/share/zsh/vendor-completions/_tenure",
    "fish": "usr/share/fish/vendor_completions.d/tenure.fish",
}


def write(
    out: Path,
    version: str,
    platform: Platform,
    binary: Path,
    root: Path,
    site: dict[str, bytes],
    time: str,
    level: int,
) -> Path | None:
    """`None` on a machine without `dpkg-deb`."""
    if shutil.which("dpkg-deb") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        install(tree / "usr/bin/tenure", binary.read_bytes(), 0o755)
        for source, place in {
            "deploy/tenure.toml": "etc/tenure/tenure.toml",
            "deploy/systemd/tenure.service": "usr/lib/systemd/system/tenure.service",
            "README.md": "usr/share/doc/tenure/README.md",
            "LICENSE": "usr/share/doc/tenure/copyright",
        }.items():
            install(tree / place, (root / source).read_bytes())
        changes = gzip.compress((root / "CHANGELOG.md").read_bytes(), mtime=0)
        install(tree / "usr/share/doc/tenure/changelog.gz", changes)
        for shell, text in archive.completions(binary).items():
            install(tree / COMPLETIONS[shell], text)
        for page, text in archive.manual(binary).items():
            install(tree / f"usr/share/man/man1/{page}.gz", gzip.compress(text, mtime=0))
        for place, data in site.items():
            install(tree / "usr/share/doc/tenure/html" / place, data)
        depends = f"Depends: {platform.debian_depends}\n" if platform.debian_depends else ""
        control = CONTROL.format(version=version, architecture=platform.debian, depends=depends)
        install(tree / "DEBIAN/control", control.encode())
        install(tree / "DEBIAN/conffiles", b"/etc/tenure/tenure.toml\n")
        path = out / f"tenure_{version}_{platform.debian}.deb"
        # Folders get the modes of a package whatever the mask of this process is.
        for place in [tree, *tree.rglob("*")]:
            if place.is_dir():
                place.chmod(0o755)
        command = ["dpkg-deb", "--root-owner-group", "-Zgzip", f"-z{level}", "--build", tree, path]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "SOURCE_DATE_EPOCH": time})
    return path


def install(place: Path, data: bytes, mode: int = 0o644) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    place.chmod(mode)
