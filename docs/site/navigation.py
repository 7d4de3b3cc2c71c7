"""The navigation: sections in order, their groups and pages.

Where a folder has an index (`README.md`), that index is the navigation: its headings are the groups, the links in it
are the pages. So there is one reading order, on a code host and here. A page that no index names is outside the
navigation, and the build says so.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field

from markdown import inline_text, parse


@dataclass
class Node:
    """A page, a group of pages, or a page with pages below it."""

    title: str
    page: str | None = None
    children: list[Node] = field(default_factory=list)

    def pages(self) -> list[str]:
        below = [page for child in self.children for page in child.pages()]
        return ([self.page] if self.page else []) + below


@dataclass
class Index:
    """All pages that an index names and that no other part of the navigation has taken."""

    source: str


@dataclass
class Group:
    title: str
    parts: list[str | Index | Group]
    page: str | None = None


@dataclass
class Section:
    title: str
    page: str
    parts: list[str | Index | Group]


SECTIONS = [
    Section(
        "Start",
        "docs/README.md",
        [
            "docs/start/install.md",
            "docs/start/first-run.md",
            "docs/start/first-task.md",
            "docs/start/durable-function.md",
            "docs/operate/console.md",
            "docs/choose.md",
            "examples/README.md",
        ],
    ),
    Section("Guides", "docs/guide/README.md", [Index("docs/guide/README.md")]),
    Section("Concepts", "docs/concepts/README.md", [Index("docs/concepts/README.md")]),
    Section(
        "Operate",
        "docs/operate/README.md",
        [
            Index("docs/operate/README.md"),
            Group(
                "Runbook: an alert has fired",
                [Index("docs/operate/runbook/README.md")],
                "docs/operate/runbook/README.md",
            ),
        ],
    ),
    Section(
        "Reference",
        "docs/reference/README.md",
        [
            Group("HTTP", [], "reference/http/index.md"),
            Group("Command line", [], "reference/cli/index.md"),
            "docs/operate/config.md",
            "docs/operate/metrics.md",
            "docs/reference/limits.md",
            Group("Error codes", [Index("docs/errors/README.md")], "docs/errors/README.md"),
        ],
    ),
    Section(
        "Compare",
        "docs/compare.md",
        [
            "docs/guide/coming-from.md",
            "docs/guide/python-from-celery.md",
            "docs/guide/typescript-from-bullmq.md",
            "docs/guide/typescript-from-inngest.md",
        ],
    ),
    Section(
        "Internals",
        "ARCHITECTURE.md",
        [
            "docs/proof.md",
            "docs/contract.md",
            "docs/amendments.md",
            "docs/invariants.md",
            "docs/faults.md",
            "docs/performance.md",
            "protocol/README.md",
            "protocol/conformance/README.md",
            "protocol/golden/README.md",
            "protocol/scenarios/durable/README.md",
            "CONTRIBUTING.md",
            "CHANGELOG.md",
            # Decisions are found by their number, so they need no index.
            Group("Decisions", [], "docs/adr/index.md"),
        ],
    ),
]


def explicit(parts: list) -> set[str]:
    """Pages that are named one by one. No index takes them as well."""
    named: set[str] = set()
    for part in parts:
        if isinstance(part, str):
            named.add(part)
        elif isinstance(part, Group):
            named |= explicit(part.parts) | ({part.page} if part.page else set())
    return named


class Builder:
    """Turns the sections into trees of nodes. `below` has the pages of groups that a program fills."""

    def __init__(self, texts: dict[str, str], titles: dict[str, str], below: dict[str, list[str]]) -> None:
        self.texts, self.titles, self.below = texts, titles, below
        self.named = {section.page for section in SECTIONS}
        for section in SECTIONS:
            self.named |= explicit(section.parts)

    def build(self) -> list[Node]:
        return [Node(part.title, part.page, self.nodes(part.parts)) for part in SECTIONS]

    def nodes(self, parts: list) -> list[Node]:
        return [node for part in parts for node in self.expand(part)]

    def expand(self, part: str | Index | Group) -> list[Node]:
        if isinstance(part, str):
            return [self.leaf(part)]
        if isinstance(part, Index):
            return self.of_index(part.source)
        children = self.nodes(part.parts) + [self.leaf(page) for page in self.below.get(part.page or "", [])]
        return [Node(part.title, part.page, children)]

    def leaf(self, page: str) -> Node:
        return Node(self.titles.get(page, page), page)

    def of_index(self, source: str) -> list[Node]:
        folder = posixpath.dirname(source)
        seen: set[str] = set()
        top = Node("")
        group = top
        tokens = parse(self.texts[source])
        for at, token in enumerate(tokens):
            if token.type == "heading_open" and token.tag == "h2":
                group = Node(inline_text(tokens[at + 1]))
                top.children.append(group)
            for page in links_of(token, folder):
                is_ours = page.startswith(f"{folder}/") and page != source and page in self.texts
                if is_ours and page not in seen | self.named and not self.has_own_index(page, folder):
                    seen.add(page)
                    group.children.append(self.leaf(page))
        return [node for node in top.children if node.page or node.children]

    def has_own_index(self, page: str, folder: str) -> bool:
        inner = posixpath.dirname(page)
        return inner != folder and f"{inner}/README.md" in self.texts


def links_of(token, folder: str) -> list[str]:
    targets = [child.attrs["href"] for child in token.children or [] if child.type == "link_open"]
    return [posixpath.normpath(posixpath.join(folder, target.split("#")[0])) for target in targets]
