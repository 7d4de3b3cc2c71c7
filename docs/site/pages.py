"""The pages of the site: where each one comes from, and its address.

A page is a Markdown file of the repository, or a text that a program wrote. Files that documents link to and that are
no Markdown (programs, settings) become pages that show their source. Nothing outside the repository is read.
"""

from __future__ import annotations

import html
import posixpath
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Larger files are data: a reader wants them as they are.
SHOWN_BYTES_MAX = 64 * 1024
# What a browser shows or saves without our help.
COPIED = {".png", ".svg", ".json", ".txt"}


@dataclass
class Heading:
    level: int
    anchor: str
    text: str


@dataclass
class Passage:
    """What the search finds: the text below one heading."""

    anchor: str
    heading: str
    text: str


@dataclass
class Page:
    source: str
    text: str
    address: str
    title: str = ""
    # What the navigation calls it, if that is shorter than the title.
    label: str = ""
    headings: list[Heading] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)
    tokens: list = field(default_factory=list)
    body: str = ""

    @property
    def anchors(self) -> set[str]:
        return {heading.anchor for heading in self.headings}


def tracked_files() -> list[str]:
    """Files of the repository, new ones included, ignored ones left out."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")
    return sorted(path for path in listed if path and (ROOT / path).is_file())


def address_of(source: str) -> str:
    """The address of a Markdown file: as in the repository, without `docs/`, and an index for each README."""
    path = source.removeprefix("docs/")
    if "/" not in source:
        return f"internals/{path.removesuffix('.md').lower()}.html"
    folder, name = posixpath.split(path)
    name = "index.html" if name == "README.md" else f"{name.removesuffix('.md')}.html"
    return posixpath.join(folder, name)


def read_page(source: str) -> Page:
    return Page(source, (ROOT / source).read_text(encoding="utf-8"), address_of(source))


class Sources:
    """Files and folders that documents link to and that are no pages themselves, each found once."""

    def __init__(self, tracked: list[str]) -> None:
        self.tracked = set(tracked)
        self.copied: dict[str, str] = {}
        self.shown: dict[str, str] = {}
        self.folders: dict[str, str] = {}

    def address(self, path: str) -> str | None:
        """Where the site has this file or folder; `None` if the repository has no such thing."""
        if path in self.tracked:
            return self._file(path)
        if any(file.startswith(f"{path}/") for file in self.tracked):
            return self.folders.setdefault(path, f"files/{path}/index.html")
        return None

    def _file(self, path: str) -> str:
        file = ROOT / path
        if file.suffix in COPIED or file.stat().st_size > SHOWN_BYTES_MAX:
            place = path.removeprefix("docs/") if path.startswith("docs/") else f"files/{path}"
            return self.copied.setdefault(path, place)
        return self.shown.setdefault(path, f"files/{path}.html")

    def listing(self, folder: str) -> list[tuple[str, str | None]]:
        """What is directly in a folder. Files are shown; folders of code are only named, or the site would hold it all."""
        prefix = f"{folder}/"
        names = sorted({file.removeprefix(prefix).split("/")[0] for file in self.tracked if file.startswith(prefix)})
        is_code = folder.startswith("crates")
        return [
            (name, None if is_code and prefix + name not in self.tracked else self.address(prefix + name))
            for name in names
        ]


def relative(address: str, start: str) -> str:
    """A link from one page to another. Relative, so that the site works in any folder and from a disk."""
    return html.escape(posixpath.relpath(address, posixpath.dirname(start) or "."))
