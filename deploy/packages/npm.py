"""The npm packages: `tenure-server`, which starts the binary, and one package for each platform, which has it."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

from platform_of import Platform

LAUNCHER = Path(__file__).resolve().parent / "npm" / "tenure.js"
# All packages of a release; one build makes one of them.
PLATFORMS = ["@tenure/server-linux-x64", "@tenure/server-linux-arm64"]
README = """# tenure-server

The server and command line of Tenure, as one binary: work that is done and recorded exactly once.

```sh
npx tenure-server dev
```

The SDK for TypeScript is `@tenure/sdk`.
"""


def write(out: Path, version: str, platform: Platform, binary: Path, licences: list[Path], level: int) -> list[Path]:
    shared = {"version": version, "license": "MIT OR Apache-2.0", "engines": {"node": ">=20.19"}}
    texts = {licence.name: licence.read_bytes() for licence in licences}
    launcher = {
        "name": "tenure-server",
        "description": "The server and command line of Tenure, as one binary.",
        **shared,
        "bin": {"tenure-server": "tenure.js", "tenure": "tenure.js"},
        "optionalDependencies": dict.fromkeys(PLATFORMS, version),
    }
    inner = {
        "name": platform.npm_name,
        "description": f"The binary of tenure-server for {platform.triple}.",
        **shared,
        **platform.npm_limits,
        "preferUnplugged": True,
    }
    name = platform.npm_name.removeprefix("@").replace("/", "-")
    return [
        pack(
            out / f"tenure-server-{version}.tgz",
            {"package.json": described(launcher), "tenure.js": LAUNCHER.read_bytes(), "README.md": README.encode()}
            | texts,
            level,
        ),
        pack(
            out / f"{name}-{version}.tgz",
            {"package.json": described(inner), "bin/tenure": binary.read_bytes()} | texts,
            level,
        ),
    ]


def described(manifest: dict) -> bytes:
    return (json.dumps(manifest, indent=2) + "\n").encode()


def pack(path: Path, files: dict[str, bytes], level: int) -> Path:
    """A tarball as npm makes it: everything below `package/`, without times and owners."""
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", level, raw, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(data)
            entry.mode = 0o755 if name in ("bin/tenure", "tenure.js") else 0o644
            archive.addfile(entry, io.BytesIO(data))
    return path
