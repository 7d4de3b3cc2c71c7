"""Packages that bring a binary to machines without Rust. `cargo xtask dist` calls it last: it writes the checksums, too.

    build.py --binary FILE --triple TARGET --out FOLDER [--documents SITE]

Needs nothing but Python. The same binary gives the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import tomllib
from pathlib import Path

import archive
import debian
import npm
import sbom
import wheel
from platform_of import Platform

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Where a release will be. There is none, so the address says so.
BASE_URL = "https://tenure.invalid/releases/{version}"
# Of gzip. A test has no time for the best.
BEST, FAST = 9, 1


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--binary", type=Path, required=True)
    arguments.add_argument("--triple", required=True)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--documents", type=Path, help="the built site, for the archive and the Debian package")
    arguments.add_argument("--fast", action="store_true", help="larger packages in less time")
    chosen = arguments.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    site = documents(chosen.documents)
    for path in packages(chosen.binary.resolve(), chosen.triple, chosen.out, site, FAST if chosen.fast else BEST):
        print(f"wrote {path}")


def documents(site: Path | None) -> dict[str, bytes]:
    """The files of the site, by their places in it."""
    files = sorted(path for path in site.rglob("*") if path.is_file()) if site else []
    return {str(path.relative_to(site)): path.read_bytes() for path in files}


def packages(binary: Path, triple: str, out: Path, site: dict[str, bytes], level: int) -> list[Path]:
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    platform = Platform.of(triple, binary)
    licences = [ROOT / "LICENSE-MIT", ROOT / "LICENSE-APACHE"]
    time = last_commit()
    bundle = archive.write(out, version, triple, binary, ROOT, site, time, level)
    made = [bundle, wheel.write(out, version, platform.wheel_tag, binary, licences, level)]
    made += npm.write(out, version, platform, binary, licences, level)
    package = debian.write(out, version, platform, binary, ROOT, site, time, level)
    if package is None:
        print("left out: the Debian package, because dpkg-deb is not installed")
    else:
        made.append(package)
    made.append(sbom.write(out, ROOT, triple, time))
    made.append(filled("install.sh", out, {"version": version}))
    base = os.environ.get("TENURE_BASE_URL", BASE_URL.format(version=version))
    values = {"version": version, "base": base, "archive": bundle.name, "sha256": checksum(bundle)}
    made.append(filled("tenure.rb", out, values))
    made.append(sums(out))
    return made


def checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sums(out: Path) -> Path:
    """The checksums of everything in the folder, also of what others have put there."""
    path = out / "SHA256SUMS"
    files = sorted(file for file in out.iterdir() if file != path)
    path.write_text("".join(f"{checksum(file)}  {file.name}\n" for file in files))
    return path


def last_commit() -> str:
    """Seconds since the epoch; a tree without a history is of the epoch."""
    told = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], capture_output=True, text=True)
    return told.stdout.strip() or "0"


def filled(name: str, out: Path, values: dict[str, str]) -> Path:
    text = (HERE / name).read_text()
    for key, value in values.items():
        text = text.replace("{{" + key + "}}", value)
    path = out / name
    path.write_text(text)
    path.chmod((HERE / name).stat().st_mode & 0o777)
    return path


if __name__ == "__main__":
    main()
