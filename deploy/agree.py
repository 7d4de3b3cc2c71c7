"""The alerts, their runbook and the page about metrics say the same."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
RULE = re.compile(r"- alert: (\w+)[^\n]*\n\s+expr: ([^\n]+)")


def main() -> int:
    rules = (ROOT / "deploy/prometheus/rules.yml").read_text()
    expected = dict(RULE.findall(rules))
    shown = dict(RULE.findall((ROOT / "docs/operate/metrics.md").read_text()))
    index = (ROOT / "docs/operate/runbook/README.md").read_text()
    tests = (ROOT / "deploy/prometheus/rules.test.yml").read_text()
    wrong = [f"docs/operate/metrics.md: {name} differs" for name in expected if shown.get(name) != expected[name]]
    wrong += [f"docs/operate/metrics.md: {name} is no alert" for name in shown if name not in expected]
    pages = re.findall(r"alert: (\w+).*?runbook: (\S+)", rules, re.DOTALL)
    wrong += [f"{name}: there is no {page}" for name, page in pages if not (ROOT / page).is_file()]
    wrong += [f"{name}: the runbook's index has no link" for name, page in pages if f"[{name}]({Path(page).name})" not in index]
    wrong += [f"{name}: no figures test it" for name, _ in pages if f'alertname="{name}"' not in tests]
    wrong += [f"{name} has no runbook" for name in expected if name not in dict(pages)]
    print("\n".join(wrong) or f"{len(expected)} alerts, each with a page and a test")
    return 1 if wrong or not expected else 0


if __name__ == "__main__":
    sys.exit(main())
