"""What a binary was built for, in the words of each kind of package."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

# The machine of a Rust target, and what others call it.
NPM_CPU = {"x86_64": "x64", "aarch64": "arm64"}
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
# The oldest glibc that wheels have a name for. A binary without glibc runs beside any.
OLDEST_GLIBC = (2, 17)


@dataclass(frozen=True)
class Platform:
    triple: str
    # The newest symbols that the binary needs; `None` if it links no glibc.
    glibc: tuple[int, int] | None

    @staticmethod
    def of(triple: str, binary: Path) -> Platform:
        needed = re.findall(rb"GLIBC_(\d+)\.(\d+)", binary.read_bytes())
        versions = [(int(major), int(minor)) for major, minor in needed]
        return Platform(triple, max(versions) if "-gnu" in triple and versions else None)

    @property
    def machine(self) -> str:
        return self.triple.split("-", 1)[0]

    @property
    def wheel_tag(self) -> str:
        """The oldest systems on which the wheel may be installed."""
        if self.glibc is None:
            major, minor = OLDEST_GLIBC
            return f"manylinux_{major}_{minor}_{self.machine}.musllinux_1_1_{self.machine}"
        major, minor = max(self.glibc, OLDEST_GLIBC)
        return f"manylinux_{major}_{minor}_{self.machine}"

    @property
    def npm_name(self) -> str:
        return f"@tenure/server-linux-{NPM_CPU[self.machine]}"

    @property
    def npm_limits(self) -> dict[str, list[str]]:
        """Where npm may install the package. A binary with glibc does not run on a system with musl alone."""
        limits = {"os": ["linux"], "cpu": [NPM_CPU[self.machine]]}
        return limits | ({"libc": ["glibc"]} if self.glibc else {})

    @property
    def debian(self) -> str:
        return DEBIAN[self.machine]

    @property
    def debian_depends(self) -> str:
        if self.glibc is None:
            return ""
        return f"libc6 (>= {self.glibc[0]}.{self.glibc[1]}), libgcc-s1"
