"""What the builder must notice, on small trees of documents."""

from __future__ import annotations

import unittest
from unittest import mock

import build
import markdown
import navigation
import reference_cli
from navigation import Group, Index, Section
from pages import Page, address_of, relative

SECTIONS = [
    Section("Start", "docs/README.md", []),
    Section("Guides", "docs/guide/README.md", [Index("docs/guide/README.md"), Group("Codes", [], "codes.md")]),
]
INDEX = "# Guides\n\n## First\n\n- [A](a.md)\n\n## Then\n\n| | |\n|---|---|\n| [B](b.md) | last |\n"
FILES = {
    "docs/README.md": "# Home\n\n[guides](guide/README.md)\n",
    "docs/guide/README.md": INDEX,
    "docs/guide/a.md": "# A\n\nSee [B](b.md#a-part) and [the top](#a).\n",
    "docs/guide/b.md": "# B\n\n## A part\n\n```rust\n# hidden\nshown();\n```\n",
    "codes.md": "# Codes\n",
}


def site(changed: dict[str, str]) -> build.Site:
    files = {**FILES, **changed}
    pages = [Page(source, text, address_of(source)) for source, text in files.items()]
    with mock.patch.object(navigation, "SECTIONS", SECTIONS):
        return build.Site(pages, sorted(files), {})


def problems(**changed: str) -> list[str]:
    made = site({f"docs/guide/{name}.md": text for name, text in changed.items()})
    made.check_navigation()
    made.render()
    return made.problems


class Checks(unittest.TestCase):
    def test_a_tree_without_faults_has_no_problems(self) -> None:
        self.assertEqual(problems(), [])

    def test_a_link_to_no_page_is_a_problem(self) -> None:
        self.assertIn("`c.md` leads to no page", problems(a="# A\n\n[C](c.md)\n")[0])

    def test_an_anchor_that_is_not_there_is_a_problem(self) -> None:
        self.assertIn("`b.md#other` names a heading", problems(a="# A\n\n[B](b.md#other)\n")[0])
        self.assertIn("`#other` names a heading", problems(a="# A\n\n[A](#other)\n")[0])

    def test_a_page_that_no_index_names_is_outside_the_navigation(self) -> None:
        found = problems(lost="# Lost\n")
        self.assertEqual(len(found), 1)
        self.assertIn("docs/guide/lost.md: this page is outside the navigation", found[0])

    def test_a_picture_from_another_site_is_a_problem(self) -> None:
        self.assertIn("loads something from another site", problems(a="# A\n\n![x](https://example.org/x.png)\n")[0])

    def test_code_is_not_followed(self) -> None:
        self.assertEqual(problems(a="# A\n\n`[C](c.md)`\n\n```text\n[C](c.md)\n```\n"), [])


class Navigation(unittest.TestCase):
    def test_the_headings_of_an_index_are_the_groups(self) -> None:
        guides = site({}).tree[1]
        self.assertEqual([node.title for node in guides.children], ["First", "Then", "Codes"])
        self.assertEqual(guides.pages(), ["docs/guide/README.md", "docs/guide/a.md", "docs/guide/b.md", "codes.md"])


class Pages(unittest.TestCase):
    def test_addresses_keep_the_folders_and_work_from_a_disk(self) -> None:
        self.assertEqual(address_of("docs/README.md"), "index.html")
        self.assertEqual(address_of("docs/guide/a.md"), "guide/a.html")
        self.assertEqual(address_of("ARCHITECTURE.md"), "internals/architecture.html")
        self.assertEqual(relative("guide/a.html", "index.html"), "guide/a.html")
        self.assertEqual(relative("index.html", "guide/a.html"), "../index.html")

    def test_anchors_are_those_of_code_hosts(self) -> None:
        self.assertEqual(markdown.slug("What `a_b` is, and why"), "what-a_b-is-and-why")
        page = Page("x.md", "# T\n\n## Same\n\n## Same\n", "x.html")
        markdown.read(page)
        self.assertEqual([heading.anchor for heading in page.headings], ["t", "same", "same-1"])

    def test_lines_that_documentation_tests_hide_are_hidden(self) -> None:
        made = site({})
        made.render()
        body = made.pages["docs/guide/b.md"].body
        self.assertIn("shown", body)
        self.assertNotIn("hidden", body)

    def test_markup_in_a_page_is_text(self) -> None:
        page = Page("x.md", "# T\n\n<script>alert(1)</script>\n", "x.html")
        markdown.read(page)
        markdown.write(page, str)
        self.assertNotIn("<script>", page.body)


class Manual(unittest.TestCase):
    ROFF = (
        ".TH x 1\n.SH NAME\nx \\- Do it\n.SH SYNOPSIS\n\\fBx\\fR [\\fB\\-\\-url\\fR]\n.SH DESCRIPTION\nDo it\n"
        ".SH OPTIONS\n.TP\n\\fB\\-\\-url\\fR \\fI<URL>\\fR\nWhere a_b is\n.br\n\n.br\nOne of:\n.RS 14\n.IP \\(bu 2\nfirst\n.RE\n"
    )

    def test_a_page_of_the_manual_becomes_markdown(self) -> None:
        made = reference_cli.section(self.ROFF, "x", 1)
        self.assertIn("```usage\nx [--url]\n```", made)
        self.assertIn("- `--url` *\\<URL\\>*\n\n  Where a\\_b is", made)
        self.assertIn("  - first", made)

    def test_a_request_that_is_not_understood_is_an_error(self) -> None:
        with self.assertRaises(ValueError):
            reference_cli.section(".SH OPTIONS\n.XX\n", "x", 1)


if __name__ == "__main__":
    unittest.main()
