"""Markdown as code hosts read it, with checked links.

A page is read twice: first for its headings, so that every anchor of the site is known, then for its HTML, in which
links between Markdown files lead to their pages.
"""

from __future__ import annotations

import functools
import html
import posixpath
import re
from collections.abc import Callable

from markdown_it import MarkdownIt
from pages import Heading, Page, Passage
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

FORMATTER = HtmlFormatter(nowrap=True)
# Without markup: an HTML tag in a page would be read differently by each host.
PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
# Lists of these pages are numbers and names; a search that finds them there helps no one.
PASSAGE_CHARACTERS_MAX = 4000


def parse(text: str) -> list:
    return PARSER.parse(text)


def inline_text(token) -> str:
    children = token.children or []
    shown = [" " if child.type in ("softbreak", "hardbreak") else child.content for child in children]
    return "".join(shown) if children else token.content


def slug(text: str) -> str:
    """The anchor that code hosts give a heading."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def read(page: Page) -> None:
    """Finds the title, the headings and the passages of a page."""
    page.tokens = parse(page.text)
    taken: dict[str, int] = {}
    passage = Passage("", "", "")
    words: list[str] = []
    for at, token in enumerate(page.tokens):
        if token.type == "heading_open":
            text = inline_text(page.tokens[at + 1])
            anchor = slug(text)
            seen = taken.get(anchor, 0)
            taken[anchor] = seen + 1
            anchor = f"{anchor}-{seen}" if seen else anchor
            token.attrs["id"] = anchor
            page.headings.append(Heading(int(token.tag[1]), anchor, text))
            if not page.title:
                page.title = text
            else:
                keep(page, passage, words)
                passage, words = Passage(anchor, text, ""), []
        elif token.type == "inline" and page.tokens[at - 1].type != "heading_open":
            words.append(inline_text(token))
        elif token.type == "fence":
            words.append(token.content)
    keep(page, passage, words)


def keep(page: Page, passage: Passage, words: list[str]) -> None:
    passage.text = " ".join(" ".join(words).split())[:PASSAGE_CHARACTERS_MAX]
    page.passages.append(passage)


def write(page: Page, link: Callable[[str], str]) -> None:
    """Renders a page. `link` turns the target of a link into an address, and notes what is broken."""
    for token in page.tokens:
        for child in token.children or []:
            if child.type == "link_open":
                child.attrs["href"] = link(child.attrs["href"])
            elif child.type == "image":
                child.attrs["src"] = link(child.attrs["src"])
    page.body = PARSER.renderer.render(page.tokens, PARSER.options, {})


def fence(renderer, tokens, at, options, env) -> str:
    """A block of code. Lines that Rust's documentation tests hide are hidden here, too."""
    token = tokens[at]
    language = re.split(r"[, ]", token.info.strip())[0]
    text = token.content
    if language == "rust":
        kept = [line for line in text.split("\n") if line != "#" and not line.startswith("# ")]
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(kept).strip("\n")) + "\n"
    # A list of all flags of a command is no program: its lines may be broken.
    kind = "code wrapped" if language == "usage" else "code"
    return f'<pre class="{kind}" tabindex="0"><code>{colored(text, language)}</code></pre>\n'


@functools.cache
def lexer(language: str):
    names = {"console": "console", "sh": "bash", "text": "text", "": "text"}
    try:
        return get_lexer_by_name(names.get(language, language), stripnl=False)
    except ClassNotFound:
        return get_lexer_by_name("text", stripnl=False)


def colored(text: str, language: str) -> str:
    return highlight(text, lexer(language), FORMATTER) if language not in ("", "text") else html.escape(text)


def heading_open(renderer, tokens, at, options, env) -> str:
    token = tokens[at]
    anchor = html.escape(token.attrs.get("id", ""))
    return f'<{token.tag} id="{anchor}">'


def heading_close(renderer, tokens, at, options, env) -> str:
    opened = tokens[at - 2]
    anchor = html.escape(opened.attrs.get("id", ""))
    mark = "" if opened.tag == "h1" else f' <a class="anchor" href="#{anchor}" aria-label="Link to this section">#</a>'
    return f"{mark}</{opened.tag}>\n"


def is_outside(target: str) -> bool:
    return bool(re.match(r"[a-z][a-z+.-]*:", target))


def resolve(source: str, target: str) -> tuple[str, str]:
    """The file that a link names, from the root of the repository, and its anchor."""
    path, _, anchor = target.partition("#")
    if not path:
        return source, anchor
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), path)), anchor


PARSER.add_render_rule("fence", fence)
PARSER.add_render_rule("heading_open", heading_open)
PARSER.add_render_rule("heading_close", heading_close)
# On a phone a wide table scrolls, and the page does not.
PARSER.add_render_rule("table_open", lambda *_: '<div class="table" tabindex="0"><table>\n')
PARSER.add_render_rule("table_close", lambda *_: "</table></div>\n")
