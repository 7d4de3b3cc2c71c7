"""A coordinator in memory: records calls, keeps signals, lets people decide, ends children, and skips time.

It does what a driver may expect of a real one: a repeated call gets its first answer, a changed step is refused, results
have a commit order, and what a wait is for arrives once. It does not know leases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ._commands import Recorded, Start, time_ms
from ._history import Checkpoint, parse
from .errors import TenureError
from .failure import Failure

#: 2026-01-01T00:00:00.000Z.
BEGINNING = 1_767_225_600_000
#: Every commit that records something is this much later than the one before it.
TICK_MS = 1
#: People do not decide in the instant in which they are asked.
READING_MS = 1

TASK_ID = "task_00000000000000000000000000"


class Stuck(TenureError):
    """The run waits for something that nothing will bring."""

    def __init__(self, items: list[str]) -> None:
        super().__init__(
            f"the run waits for {', '.join(items)}, and nothing will bring it",
            code="stuck",
            next_step="send a signal, decide the approval or define the child",
        )


@dataclass(frozen=True, slots=True)
class Word:
    """What a person will say, as soon as the approval of this name is open and the time has come."""

    at: int
    name: str
    key: str
    decision: str
    comment: str | None


@dataclass(slots=True)
class Script:
    """What happens to a run from outside."""

    signals: list[tuple[int, str, Any]] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    kinds: dict[str, tuple[int, Callable[[Any], Any]]] = field(default_factory=dict)
    deliveries: dict[str, tuple[int, str]] = field(default_factory=dict)


class Coordinator:
    """A coordinator with one run."""

    def __init__(self, script: Script, seed: int, recorded: list[Checkpoint]) -> None:
        self._now = BEGINNING
        self._seed = seed
        self._signals = sorted(script.signals, key=lambda signal: signal[0])
        self._words = sorted(script.words, key=lambda word: word.at)
        self._kinds = script.kinds
        self._deliveries = script.deliveries
        self.history: list[Checkpoint] = []
        self._places: dict[tuple[str, bool], int] = {}
        self._first = 0
        self._children: dict[str, tuple[int, Any, Failure | None]] = {}
        self._asked: dict[str, int] = {}
        self._effects: dict[tuple[str, str], tuple[str, int]] = {}
        self._wait: dict[str, Any] | None = None
        for checkpoint in recorded:
            self._now = max(self._now, checkpoint.recorded_at)
            self._keep(checkpoint)

    def start(self, fence: int) -> Start:
        """What a lease's envelope brings: nothing from before the last savepoint."""
        recorded = [replace(each) for each in self.history[self._first :]]
        return Start(TASK_ID, fence, self._seed, BEGINNING, recorded)

    def record(
        self, steps: list[dict[str, Any]], children: list[dict[str, Any]], wait: dict[str, Any] | None
    ) -> Recorded:
        """Records a call as a whole."""
        self._check(steps)
        if not all((step["key"], False) in self._places for step in steps):
            self._now += TICK_MS
        recorded_at = self._now
        for step in steps:
            for effect in step.get("effects", ()):
                self._effects.setdefault((step["key"], effect["key"]), (effect["type"], self._now))
            recorded_at = self._keep(_checkpoint(step, self._now))
        for child in children:
            self._start_child(child)
        self._end_children()
        for item in wait["for"] if wait else ():
            if "approval" in item:
                self._asked.setdefault(item["key"], self._now)
        results = self._arrivals(wait) if wait else []
        self._wait = wait if results is None else None
        return Recorded("waiting" if results is None else "running", recorded_at, results or [])

    def skip_time(self) -> None:
        """Moves the clock to the instants at which something happens, until the wait is satisfied."""
        while self._wait is not None:
            self._end_children()
            if self._arrivals(self._wait) is not None:
                self._wait = None
                return
            instants = [at for at in self._instants(self._wait) if at > self._now]
            if not instants:
                raise Stuck([item["key"] for item in self._wait["for"]])
            self._now = min(instants)

    def _check(self, steps: list[dict[str, Any]]) -> None:
        for step in steps:
            place = self._places.get((step["key"], False))
            if place is None:
                continue
            known = self.history[place]
            if _checkpoint(step, known.recorded_at) != known:
                raise AssertionError(f"`{step['key']}` is recorded with another result or input")

    def _keep(self, checkpoint: Checkpoint) -> int:
        """Keeps a checkpoint, unless it is known. Returns when it was recorded."""
        identity = (checkpoint.key, checkpoint.outcome == "STARTED")
        place = self._places.setdefault(identity, len(self.history))
        if place == len(self.history):
            if checkpoint.savepoint:
                self._first = place
            self.history.append(checkpoint)
        return self.history[place].recorded_at

    def _start_child(self, child: dict[str, Any]) -> None:
        key, run = child["key"], child["run"]
        if (key, True) in self._places:
            return
        self._keep(Checkpoint(key, "STARTED", None, None, child["inputDigest"], self._now))
        if child.get("detached") or run.get("kind") not in self._kinds:
            return
        takes, code = self._kinds[run["kind"]]
        try:
            self._children[key] = (self._now + takes, code(run.get("input")), None)
        except Failure as failure:
            self._children[key] = (self._now + takes, None, failure)

    def _end_children(self) -> None:
        """Records the ends of children whose time has come, in order of time."""
        ended = sorted((at, key) for key, (at, _, _) in self._children.items() if at <= self._now)
        for _, key in ended:
            _, result, failure = self._children.pop(key)
            error = failure.to_json() if failure else None
            self._keep(Checkpoint(key, "FAILED" if failure else "SUCCEEDED", result, error, None, self._now))

    def _arrivals(self, wait: dict[str, Any]) -> list[Checkpoint] | None:
        """What has arrived, if that satisfies the wait."""
        here = [self._is_here(item) for item in wait["for"]]
        if not (all(here) if wait["mode"] == "all" else any(here)):
            return None
        is_one_enough = wait["mode"] == "any" and not any("child" in item for item in wait["for"])
        places: list[int] = []
        for item in wait["for"]:
            place = None if is_one_enough and places else self._take(item)
            if place is not None:
                places.append(place)
        return [replace(self.history[place]) for place in sorted(places)]

    def _is_here(self, item: dict[str, Any]) -> bool:
        if (item["key"], False) in self._places:
            return True
        if "until" in item:
            return time_ms(item["until"]) <= self._now
        if "signal" in item:
            return self._signal_place(item["signal"]) is not None
        if "approval" in item:
            return self._decided(item) is not None
        if "effect" in item:
            return self._delivered_at(item) <= self._now
        return False

    def _signal_place(self, name: str) -> int | None:
        places = (n for n, (at, known, _) in enumerate(self._signals) if known == name and at <= self._now)
        return next(places, None)

    def _take(self, item: dict[str, Any]) -> int | None:
        """Records an item that is here."""
        key = item["key"]
        known = self._places.get((key, False))
        if known is not None:
            return known
        if not self._is_here(item):
            return None
        value, digest = None, None
        if "signal" in item:
            place = self._signal_place(item["signal"])
            assert place is not None, "the signal is here"
            value = self._signals.pop(place)[2]
        elif "approval" in item:
            value = self._decided(item)
            digest = item["approval"].get("digest")
            self._forget_words(item, value)
        elif "effect" in item:
            value = self._told_delivery(item)
        self._keep(Checkpoint(key, "SUCCEEDED", value, None, digest, self._now))
        return len(self.history) - 1

    def _delivered_at(self, item: dict[str, Any]) -> int:
        kind, declared_at = self._effects[item["effect"]["step"], item["effect"]["key"]]
        return declared_at + self._deliveries.get(kind, (0, ""))[0]

    def _told_delivery(self, item: dict[str, Any]) -> dict[str, Any]:
        kind, _ = self._effects[item["effect"]["step"], item["effect"]["key"]]
        outcome = self._deliveries.get(kind, (0, "DELIVERED"))[1]
        effect_id = f"eff_{item['effect']['step']}/{item['effect']['key']}"
        told = {"outcome": outcome, "effectId": effect_id, "atMs": self._delivered_at(item)}
        return {**told, "reason": "tries_exhausted"} if outcome == "FAILED" else told

    # People.

    def _votes(self, item: dict[str, Any]) -> list[Word]:
        """The votes on an approval, up to the one that decides it."""
        name = parse(item["key"])[1].rpartition("/")[2].partition(":")[2].partition("#")[0]
        terms = item["approval"]
        expires_at = time_ms(terms["expiresAt"]) if "expiresAt" in terms else None
        asked = self._asked.get(item["key"])
        votes: list[Word] = []
        for word in self._words if asked is not None else ():
            vote = replace(word, at=max(word.at, (asked or 0) + READING_MS))
            is_late = expires_at is not None and expires_at <= vote.at
            is_second = any(earlier.key == vote.key for earlier in votes)
            if word.name == name and not is_late and not is_second and _outcome(votes, terms) is None:
                votes.append(vote)
        return votes

    def _decided(self, item: dict[str, Any]) -> dict[str, Any] | None:
        terms = item["approval"]
        votes = [vote for vote in self._votes(item) if vote.at <= self._now]
        outcome = _outcome(votes, terms)
        if outcome is None and "expiresAt" in terms and time_ms(terms["expiresAt"]) <= self._now:
            outcome = terms.get("default") or "EXPIRED"
        if outcome is None:
            return None
        told = [{"key": v.key, "decision": v.decision, "atMs": v.at, "comment": v.comment} for v in votes]
        shown = {"outcome": outcome, "votes": told}
        return {**shown, "digest": terms["digest"]} if "digest" in terms else shown

    def _forget_words(self, item: dict[str, Any], told: Any) -> None:
        """An approval is over: what was said of it is not said again."""
        said = {vote["key"] for vote in told["votes"]}
        names = {vote.name for vote in self._votes(item)}
        kept: list[Word] = []
        for word in self._words:
            if word.name in names and word.key in said:
                said.discard(word.key)
            else:
                kept.append(word)
        self._words = kept

    def _instants(self, wait: dict[str, Any]) -> list[int]:
        instants = [at for at, _, _ in self._signals] + [at for at, _, _ in self._children.values()]
        for item in wait["for"]:
            if "until" in item:
                instants.append(time_ms(item["until"]))
            elif "effect" in item:
                instants.append(self._delivered_at(item))
            elif "approval" in item:
                instants += [vote.at for vote in self._votes(item)]
                if "expiresAt" in item["approval"]:
                    instants.append(time_ms(item["approval"]["expiresAt"]))
        return instants


def _outcome(votes: list[Word], terms: dict[str, Any]) -> str | None:
    if any(vote.decision == "REJECTED" for vote in votes):
        return "REJECTED"
    return "APPROVED" if len(votes) >= terms.get("quorum", 1) else None


def _checkpoint(step: dict[str, Any], recorded_at: int) -> Checkpoint:
    return Checkpoint(
        step["key"],
        step["outcome"],
        step.get("result"),
        step.get("error"),
        step.get("inputDigest"),
        recorded_at,
        step.get("savepoint", False),
    )
