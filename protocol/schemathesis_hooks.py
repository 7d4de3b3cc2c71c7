"""Waits that are allowed are made short, so that a run is not spent on them. Those that are not stay as they are."""

import schemathesis

SHORT_MS = 20
LONGEST_MS = 30_000


def shortened(members):
    wait = members.get("waitMs") if isinstance(members, dict) else None
    try:
        allowed = not isinstance(wait, bool) and SHORT_MS < int(str(wait)) <= LONGEST_MS
    except ValueError:
        return
    if allowed:
        members["waitMs"] = SHORT_MS


@schemathesis.hook
def before_call(context, case, kwargs):
    shortened(case.query)
    shortened(case.body)
