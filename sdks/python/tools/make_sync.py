"""Writes the blocking client from the asynchronous one: `aio.py` to `client.py`, `_resources_aio.py` to `_resources.py`.

    python tools/make_sync.py            writes the files
    python tools/make_sync.py --check    fails if a file is not what would be written

Only words are replaced, so both clients have the same calls in the same order.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "tenure"
FILES = {"aio.py": "client.py", "_resources_aio.py": "_resources.py"}

WORDS = [
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bAsync([A-Z]\w+)", r"\1"),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"\bimport asyncio\n", ""),
    (r"\b_resources_aio\b", "_resources"),
    (r"\b_http import\b", "_sync_http import"),
    (r"`async with`", "`with`"),
    (
        r"Use it in one event loop at a time, and close it, or use it with",
        "Safe to use from several threads, and after a fork. Close it, or use it with",
    ),
    (
        r"The asynchronous client\. `client\.py` is generated from this file by `tools/make_sync\.py`: change this one\.",
        "The blocking client. Generated from `aio.py` by `tools/make_sync.py`; do not edit.",
    ),
    (
        r"\(asynchronous; `_resources\.py` is generated from this file by `tools/make_sync\.py`\)",
        "(generated from `_resources_aio.py` by `tools/make_sync.py`; do not edit)",
    ),
]


def main() -> int:
    stale = []
    for source, target in FILES.items():
        text = formatted(blocking((SOURCE / source).read_text()), target)
        if (SOURCE / target).exists() and (SOURCE / target).read_text() == text:
            continue
        if "--check" in sys.argv:
            stale.append(target)
        else:
            (SOURCE / target).write_text(text)
    if stale:
        print(f"stale: {', '.join(stale)}; run tools/make_sync.py", file=sys.stderr)
    return len(stale)


def blocking(text: str) -> str:
    """The blocking form of asynchronous source."""
    for pattern, replacement in WORDS:
        text = re.sub(pattern, replacement, text)
    return text


def formatted(text: str, name: str) -> str:
    """As ruff wants it: imports sorted, lines joined."""
    ruff = [sys.executable, "-m", "ruff"]
    for command in (["check", "--select", "I", "--fix", "-q"], ["format", "-q"]):
        done = subprocess.run(
            [*ruff, *command, "--stdin-filename", str(SOURCE / name), "-"],
            input=text,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        text = done.stdout
    return text


if __name__ == "__main__":
    sys.exit(main())
