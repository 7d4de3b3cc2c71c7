"""Builds the site of the documents: HTML that needs no server, no network and no other site.

    build.py --binary TENURE --out FOLDER

It fails, with every reason at once, if a link leads nowhere, if a page is outside the navigation, or if a page would
load anything from elsewhere.
"""

from __future__ import annotations

import argparse
import html
import json
import posixpath
import re
import shutil
import sys
from pathlib import Path

import markdown
import navigation
import reference_cli
import reference_http
from navigation import Node
from pages import ROOT, Page, Sources, read_page, relative, tracked_files

THEME = Path(__file__).resolve().parent / "theme"
# Pages that users need least are found last.
LAST_SECTION = "Internals"
OUTSIDE_LOADS = re.compile(r"""<(?:script|img|link|iframe|source)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//""")


class Site:
    def __init__(self, pages: list[Page], tracked: list[str], below: dict[str, list[str]]) -> None:
        self.pages = {page.source: page for page in pages}
        self.sources = Sources(tracked)
        self.problems: list[str] = []
        for page in pages:
            markdown.read(page)
        texts = {page.source: page.text for page in pages}
        titles = {page.source: page.label or page.title for page in pages}
        self.tree = navigation.Builder(texts, titles, below).build()
        self.order = list(dict.fromkeys(page for node in self.tree for page in node.pages()))

    def check_navigation(self) -> None:
        self.problems += [
            f"navigation.py names `{page}`, which does not exist" for page in self.order if page not in self.pages
        ]
        for source in sorted(set(self.pages) - set(self.order)):
            self.problems.append(f"{source}: this page is outside the navigation; add it to the index of its folder")

    def link(self, page: Page, target: str) -> str:
        """The address that a link leads to."""
        if markdown.is_outside(target):
            return target
        path, anchor = markdown.resolve(page.source, target)
        found = self.pages.get(path) or self.pages.get(f"{path}/README.md") or self.pages.get(f"{path}/index.md")
        if found is None:
            address = self.sources.address(path)
            if address is None or path.endswith(".md"):
                self.problems.append(f"{page.source}: the link to `{target}` leads to no page")
                return target
            return relative(address, page.address)
        if anchor and anchor not in found.anchors:
            self.problems.append(f"{page.source}: the link to `{target}` names a heading that is not there")
        suffix = f"#{anchor}" if anchor else ""
        return suffix if found is page and suffix else relative(found.address, page.address) + suffix

    def render(self) -> dict[str, str]:
        """All files that are text, by address."""
        for page in self.pages.values():
            markdown.write(page, lambda target, page=page: self.link(page, target))
        made = {page.address: self.document(page) for page in self.pages.values()}
        made["search-index.js"] = self.search_index()
        made.update(self.source_pages())
        for address, text in made.items():
            if OUTSIDE_LOADS.search(text):
                self.problems.append(f"{address} loads something from another site")
        return made

    def document(self, page: Page) -> str:
        section = next((node for node in self.tree if page.source in node.pages()), self.tree[0])
        at = self.order.index(page.source) if page.source in self.order else 0
        around = self.neighbour(page, at - 1, "prev"), self.neighbour(page, at + 1, "next")
        return self.fill(
            page.address, page.title, section, self.side(section, page), page.body, contents(page), "".join(around)
        )

    def neighbour(self, page: Page, at: int, rel: str) -> str:
        if not 0 <= at < len(self.order) or self.order[at] not in self.pages:
            return ""
        other = self.pages[self.order[at]]
        said = {"prev": "Before", "next": "Next"}[rel]
        return f'<a rel="{rel}" href="{relative(other.address, page.address)}"><span>{said}</span>{html.escape(other.title)}</a>'

    def fill(
        self, address: str, title: str, section: Node | None, side: str, body: str, aside: str, around: str
    ) -> str:
        root = posixpath.relpath(".", posixpath.dirname(address) or ".")
        values = {
            "title": html.escape(title if address == "index.html" else f"{title} · Tenure"),
            "root": "" if root == "." else f"{root}/",
            "tabs": "".join(self.tab(node, section, address) for node in self.tree),
            "side": side,
            "body": body,
            "contents": aside,
            "around": around,
        }
        template = (THEME / "page.html").read_text(encoding="utf-8")
        return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found.group(1)], template)

    def tab(self, node: Node, section: Node | None, address: str) -> str:
        current = ' aria-current="true"' if node is section else ""
        return f'<a href="{relative(self.pages[node.page].address, address)}"{current}>{html.escape(node.title)}</a>'

    def side(self, section: Node, page: Page) -> str:
        top = Node(self.pages[section.page].title, section.page)
        return f"<ul>{''.join(self.entry(node, page) for node in [top, *section.children])}</ul>"

    def entry(self, node: Node, page: Page) -> str:
        label = html.escape(node.title)
        if node.page:
            current = ' aria-current="page"' if node.page == page.source else ""
            label = f'<a href="{relative(self.pages[node.page].address, page.address)}"{current}>{label}</a>'
        if not node.children:
            return f"<li>{label}</li>"
        # Long groups are open only where the reader is; short ones are always open.
        is_here = page.source in node.pages()
        is_open = " open" if is_here or len(node.children) <= 12 else ""
        inner = "".join(self.entry(child, page) for child in node.children)
        return f"<li><details{is_open}><summary>{label}</summary><ul>{inner}</ul></details></li>"

    def search_index(self) -> str:
        last = {page for node in self.tree if node.title == LAST_SECTION for page in node.pages()}
        rows = [
            [
                page.address + (f"#{one.anchor}" if one.anchor else ""),
                page.title,
                one.heading,
                one.text,
                int(page.source in last),
            ]
            for page in self.pages.values()
            for one in page.passages
        ]
        # A script and not data, because a page that is opened from a disk may not fetch.
        return f"window.tenureIndex={json.dumps(rows, ensure_ascii=False, separators=(',', ':'))};\n"

    def source_pages(self) -> dict[str, str]:
        """Programs and settings that pages link to, and folders of them. A listing can name further ones."""
        made: dict[str, str] = {}
        while True:
            files = {path: at for path, at in self.sources.shown.items() if at not in made}
            folders = {path: at for path, at in self.sources.folders.items() if at not in made}
            if not files and not folders:
                return made
            for path, address in files.items():
                text = (ROOT / path).read_text(encoding="utf-8")
                language = {".rs": "rust", ".py": "python", ".ts": "ts", ".mjs": "js", ".sh": "sh", ".toml": "toml"}
                language |= {".yml": "yaml", ".yaml": "yaml", ".service": "ini"}
                code = markdown.colored(text, language.get(Path(path).suffix, "text"))
                made[address] = self.fill(
                    address,
                    path,
                    None,
                    "",
                    f'<h1>{path}</h1><pre class="code" tabindex="0"><code>{code}</code></pre>',
                    "",
                    "",
                )
            for path, address in folders.items():
                rows = "".join(self.row(name, at, address) for name, at in self.sources.listing(path))
                made[address] = self.fill(address, path, None, "", f"<h1>{path}</h1><ul>{rows}</ul>", "", "")

    def row(self, name: str, at: str | None, address: str) -> str:
        return f'<li><a href="{relative(at, address)}">{name}</a></li>' if at else f"<li>{name}</li>"


def contents(page: Page) -> str:
    rows = [
        f'<li class="level{one.level}"><a href="#{html.escape(one.anchor)}">{html.escape(one.text)}</a></li>'
        for one in page.headings
        if one.level in (2, 3)
    ]
    return f"<h2>On this page</h2><ul>{''.join(rows)}</ul>" if len(rows) > 1 else ""


def decisions(tracked: list[str]) -> tuple[Page, list[str]]:
    """The list of decision records, which has no file of its own."""
    records = [path for path in tracked if re.fullmatch(r"docs/adr/\d{4}-.*\.md", path)]
    lines = ["# Decisions", "", "Why Tenure is built like this, in the order in which it was decided.", ""]
    for record in records:
        first = (ROOT / record).read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")
        lines.append(f"- [{first}]({posixpath.basename(record)})")
    return Page("docs/adr/index.md", "\n".join(lines), "adr/index.html"), records


def collect(binary: Path, tracked: list[str]) -> tuple[list[Page], dict[str, list[str]]]:
    """All pages, and the pages of the groups that a program fills."""
    http, cli = reference_http.pages(), reference_cli.pages(binary)
    adr, records = decisions(tracked)
    named = [page for section in navigation.SECTIONS for page in [section.page, *navigation.explicit(section.parts)]]
    written = {path for path in tracked if path.startswith("docs/") and path.endswith(".md")}
    written |= {path for path in named if path in set(tracked)}
    below = {
        "reference/http/index.md": [page.source for page in http[1:]],
        "reference/cli/index.md": [page.source for page in cli[1:]],
        "docs/adr/index.md": records,
    }
    return [*(read_page(path) for path in sorted(written)), *http, *cli, adr], below


def publish(site: Site, made: dict[str, str], out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    for address, text in made.items():
        file = out / address
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    for path, address in site.sources.copied.items():
        (out / address).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, out / address)
    for name in ("style.css", "theme.js", "search.js", "site.js"):
        shutil.copyfile(THEME / name, out / name)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--binary", type=Path, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    chosen = arguments.parse_args()
    tracked = tracked_files()
    pages, below = collect(chosen.binary, tracked)
    site = Site(pages, tracked, below)
    site.check_navigation()
    if not site.problems:
        made = site.render()
    if site.problems:
        print("\n".join(site.problems), file=sys.stderr)
        return 1
    publish(site, made, chosen.out)
    print(f"{len(site.pages)} pages in {chosen.out / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
