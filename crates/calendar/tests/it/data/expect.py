"""Writes expected.tsv: what cron expressions mean, computed without the crate under test.

Needs `pip install croniter tzdata`. croniter finds the matching local times on a clock that never changes; this script
then places each of them in its zone by the two rules of Vixie cron. Columns: expression, zone, start, five instants
(milliseconds since the epoch). The result is committed; run this only to change the cases.
"""

import random
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from croniter import croniter

ZONES = """UTC Europe/Berlin America/New_York America/St_Johns Australia/Lord_Howe Asia/Kolkata Pacific/Auckland
America/Sao_Paulo Africa/Cairo Asia/Tehran Pacific/Apia Europe/London America/Los_Angeles Asia/Kathmandu
Antarctica/Troll Pacific/Chatham""".split()
MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()
DAYS = "SUN MON TUE WED THU FRI SAT".split()
FIXED = ["30 2 * * *", "0 2 * * *", "15 1 * * *", "0 0 * * *", "30 1 * * SUN", "0,15,30 2 * * *", "59 23 * * *", "0 3 * * *",
         "30 0,1,2,3 * * *", "10-50/20 1-3 * * *", "45 1 * * 0", "5 2 25-31 MAR,OCT *"]
RHYTHM = ["*/15 * * * *", "0 * * * *", "* 2 * * *", "*/30 1-3 * * *", "30 */2 * * *", "7 * * * *", "*/20 2 * * *",
          "*/7 */3 * * *"]


def item(rng, low, high, names=None):
    kind = rng.random()
    a = rng.randint(low, high)
    name = names[a - low] if names and a - low < len(names) and rng.random() < 0.4 else str(a)
    if kind < 0.5:
        return name
    b = rng.randint(a, high)
    if kind < 0.8:
        return f"{a}-{b}" if a < b else name
    return f"{a}-{b}/{rng.randint(1, 5)}" if a < b else name


def field(rng, low, high, star, names=None):
    roll = rng.random()
    if roll < star:
        return "*"
    if roll < star + 0.12:
        return f"*/{rng.randint(2, 6)}"
    return ",".join(item(rng, low, high, names) for _ in range(rng.randint(1, 3)))


def expression(rng):
    if rng.random() < 0.4:
        return rng.choice(FIXED + RHYTHM)
    return " ".join([field(rng, 0, 59, 0.1), field(rng, 0, 23, 0.25), field(rng, 1, 28, 0.6),
                     field(rng, 1, 12, 0.7, MONTHS), field(rng, 0, 6, 0.6, DAYS)])


def offset(zone, instant):
    return instant.astimezone(zone).utcoffset()


def gap_end(zone, local):
    """The first instant after the skipped time that contains a local time, or None if the clock was corrected."""
    before = (local - timedelta(days=1)).replace(tzinfo=timezone.utc) - offset(zone, local.replace(tzinfo=timezone.utc) - timedelta(days=1))
    low, high = before, before + timedelta(days=3)
    start = offset(zone, low)
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) / 2
        if offset(zone, middle) == start:
            low = middle
        else:
            high = middle
    high = high.replace(microsecond=0)
    jump = offset(zone, high) - start
    return high if timedelta(0) < jump <= timedelta(hours=3) else None


def instants(zone, local, rhythm):
    """The instants at which the clock of a zone shows a local time, after the rules of Vixie cron."""
    seen = []
    for fold in (0, 1):
        instant = local.replace(tzinfo=zone, fold=fold).astimezone(timezone.utc)
        if instant.astimezone(zone).replace(tzinfo=None) == local and instant not in seen:
            seen.append(instant)
    if rhythm:
        return seen
    if seen:
        return seen[:1]
    end = gap_end(zone, local)
    return [end] if end else []


def expect(text, name, start, count=5):
    zone = ZoneInfo(name)
    minute, hour = text.split()[:2]
    rhythm = minute.startswith("*") or hour.startswith("*")
    local = start.astimezone(zone).replace(tzinfo=None) - timedelta(days=1)
    walk = croniter(text, local, implement_cron_bug=True)
    found = set()
    for _ in range(20_000):
        local = walk.get_next(datetime)
        found.update(i for i in instants(zone, local, rhythm) if i > start)
        # Two changes of the clock never stand within a day of each other in these cases.
        settled = local - timedelta(days=1, hours=2)
        if sum(1 for i in found if i.astimezone(zone).replace(tzinfo=None) <= settled) >= count:
            break
    return sorted(found)[:count]


def near_a_change(rng, name):
    """A start within some hours of a change of the clock, where the zone has one in its year."""
    zone = ZoneInfo(name)
    start = datetime(rng.randint(2005, 2025), 1, 1, tzinfo=timezone.utc)
    days = [start + timedelta(days=d) for d in range(365)]
    changes = [d for d in days if offset(zone, d) != offset(zone, d + timedelta(days=1))]
    base = rng.choice(changes) if changes else rng.choice(days)
    return base + timedelta(minutes=rng.randint(-24 * 60, 30 * 60))


def main():
    rng = random.Random(14)
    rows = []
    while len(rows) < 1000:
        text, name, start = expression(rng), rng.choice(ZONES), None
        start = near_a_change(rng, name)
        try:
            found = expect(text, name, start)
        except Exception as problem:  # croniter refuses dates that never come
            print("skipped", text, problem)
            continue
        if len(found) < 5:
            continue
        ms = [str(int(i.timestamp() * 1000)) for i in [start, *found]]
        rows.append("\t".join([text, name, ms[0], ",".join(ms[1:])]))
    with open(__file__.replace("expect.py", "expected.tsv"), "w") as out:
        out.write("\n".join(rows) + "\n")


main()
