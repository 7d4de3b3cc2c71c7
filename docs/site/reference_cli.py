"""The reference of the command line: pages from the manual that the binary writes, one for each command.

`tenure man FOLDER` writes one roff page for each command and each command below it. Only the requests that it uses
are read; any other is an error, so that nothing is lost silently.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from pages import Page

IGNORED = (".TH", ".ie", ".el", '.\\"', ".nh", ".ad")
HELP = "\\fB\\-h\\fR, \\fB\\-\\-help\\fR"
FONTS = {"B": "**", "I": "*"}


def pages(binary: Path) -> list[Page]:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([str(binary), "man", folder], check=True, capture_output=True)
        manual = {file.stem: file.read_text(encoding="utf-8") for file in sorted(Path(folder).glob("*.1"))}
    commands = sorted(name for name in manual if name.count("-") and not parent(name, manual))
    made = [generated("index", [overview(manual, commands)])]
    for command in commands:
        below = sorted(name for name in manual if name.startswith(f"{command}-"))
        texts = [section(manual[name], words(name, manual), 1 if name == command else 2) for name in [command, *below]]
        made.append(generated(command.removeprefix("tenure-"), texts))
    return made


def parent(name: str, manual: dict[str, str]) -> str | None:
    """The command above, other than the program. Names of commands have hyphens, so the text decides nothing alone."""
    cut = name.rsplit("-", 1)[0]
    while cut != "tenure":
        if cut in manual:
            return cut
        cut = cut.rsplit("-", 1)[0]
    return None


def words(name: str, manual: dict[str, str]) -> str:
    above = parent(name, manual)
    if above is None:
        return name.replace("tenure-", "tenure ", 1)
    return f"{words(above, manual)} {name.removeprefix(above + '-')}"


def generated(name: str, texts: list[str]) -> Page:
    return Page(f"reference/cli/{name}.md", "\n\n".join(texts), f"reference/cli/{name}.html")


def overview(manual: dict[str, str], commands: list[str]) -> str:
    lines = [
        "# Command line",
        "",
        "Each command has `--help` and a page for `man` (`tenure man FOLDER`); these pages are the same text. Every command takes the [flags](#everywhere) that are listed last.",
    ]
    lines += ["", "| command | |", "|---|---|"]
    for command in commands:
        name = command.removeprefix("tenure-")
        lines.append(f"| [`tenure {name}`]({name}.md) | {summary(manual[command])} |")
    lines += ["", section(manual["tenure"], "tenure", 2)]
    return "\n".join(lines)


def summary(roff: str) -> str:
    found = re.search(r"^\.SH NAME\n.*? \\- (.*)$", roff, re.MULTILINE)
    return inline(found.group(1)).replace("|", "\\|") if found else ""


def section(roff: str, name: str, level: int) -> str:
    """One page of the manual as Markdown. The list of commands below is left out: they follow."""
    lines = [f"{'#' * level} {name}"]
    heading, text = "", []
    for line in [*roff.split("\n"), ".SH END"]:
        if line.startswith(".SH "):
            # What every command takes is said once, with the program.
            lines += block(heading, text, level) if heading != "EVERYWHERE" or name == "tenure" else []
            heading, text = line[4:].strip('"'), []
        else:
            text.append(line)
    return "\n".join(lines)


def block(heading: str, text: list[str], level: int) -> list[str]:
    if heading in ("", "NAME", "SUBCOMMANDS", "VERSION"):
        return []
    if heading == "SYNOPSIS":
        shown = re.sub(r"\\f[BIRP]", "", " ".join(line for line in text if not line.startswith(".")))
        return ["", "```usage", unescaped(shown).strip(), "```"]
    title = [] if heading == "DESCRIPTION" else ["", f"{'#' * (level + 1)} {heading.capitalize()}", ""]
    body = paragraphs(text)
    return [*title, "", *body] if any(body) else []


def paragraphs(text: list[str]) -> list[str]:
    """Tagged paragraphs become lists: the tag, then what it means."""
    lines: list[str] = []
    is_tag, is_bullet, indent = False, False, ""
    for line in text:
        if line.startswith(".TP"):
            is_tag, indent = True, "  "
        elif line.startswith((".PP", ".LP")):
            indent = ""
            lines.append("")
        elif line.startswith(".IP"):
            is_bullet = True
        elif line.startswith((".br", ".RS", ".RE", ".sp")):
            lines.append("")
        elif line.startswith(IGNORED):
            continue
        elif line.startswith("."):
            raise ValueError(f"the manual has a request that is not understood: {line}")
        elif is_tag and line == HELP:
            # Every command has it, and the page is the help.
            return lines
        elif is_tag:
            lines += ["", f"- {inline(line)}", ""]
            is_tag = False
        elif is_bullet:
            lines.append(f"{indent}- {inline(line)}")
            is_bullet = False
        else:
            lines.append(indent + inline(line).lstrip() if line.strip() else "")
    return lines


def inline(line: str) -> str:
    """Fonts and escapes of one line. Markdown's own signs are escaped, and a font without text is left out."""
    parts = re.split(r"\\f([BIRP])", line)
    shown = [escaped(parts[0])]
    for font, text in zip(parts[1::2], parts[2::2], strict=True):
        mark = FONTS.get(font, "")
        body = unescaped(text)
        if font == "B" and body.strip():
            shown.append(f"`{body.strip()}`" + (" " if body.endswith(" ") else ""))
        elif mark and body.strip():
            shown.append(f"{mark}{escaped(text).strip()}{mark}")
        else:
            shown.append(escaped(text))
    return "".join(shown)


def unescaped(text: str) -> str:
    text = text.replace("\\-", "-").replace("\\*(Aq", "'").replace("\\(aq", "'").replace("\\&", "").replace("\\ ", " ")
    return text.replace("\\.", ".").replace("\\e", "\\").replace("\\\\", "\\")


def escaped(text: str) -> str:
    """Outside of code in backticks, what Markdown would read as markup is escaped."""
    pieces = unescaped(text).split("`")
    if len(pieces) % 2 == 0:
        pieces = [unescaped(text).replace("`", "\\`")]
    return "`".join(
        re.sub(r"([*_<>\[\]#])", r"\\\1", piece) if at % 2 == 0 else piece for at, piece in enumerate(pieces)
    )
