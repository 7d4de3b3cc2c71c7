"""The state of one attempt of a durable function: what the code waits for, what is unrecorded, what comes next.

Operations put what they want here and wait. When the code cannot go on, `Core.settle` looks at all wants together and makes
the next commands. So what is ready at the same time goes out in one call, and nothing new starts before the code has come
to everything that was recorded. No I/O, no clock.

Invariants:
- a step starts only after all earlier results of its branch are recorded, and at most one call is under way;
- a wait is sent only when no step runs and nothing else is wanted, because it may end the attempt;
- after an ending is set, no command is made.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from . import _json, _stop
from ._codec import Codec, digest_of, opened, sealed
from ._commands import Command, Execute, Last, Record, Recorded, Start, Until, Waits, time_ms
from ._history import Checkpoint, History, Unlike, fits, joined, parse
from ._stop import Divergence, Seen
from .failure import Failure
from .options import Left, Spend

#: Open branches of one run. Each has a cursor in memory, and every answer looks at all of them.
BRANCHES_MAX = 1000
#: The coordinator's limits of one call.
STEPS_PER_CALL_MAX = 100
CHILDREN_PER_CALL_MAX = 500
DAY_MS = 24 * 60 * 60 * 1000
#: The coordinator gives a wait up after this time, unless the call says otherwise.
WAIT_MS_DEFAULT = 30 * DAY_MS


@dataclass(slots=True)
class BranchState:
    """One branch's cursor: its counts, its time, and what it is doing."""

    now: int
    joined: int
    is_open: bool = True
    counts: dict[str, int] = field(default_factory=dict)
    #: How many operations were entered since the last savepoint.
    index: int = 0
    #: Results that have yet to be recorded.
    unrecorded: int = 0
    inner_open: int = 0
    patches: dict[str, bool] = field(default_factory=dict)
    busy: str | None = None


@dataclass(slots=True)
class Want:
    """What an operation waits for: a record, the start of its work, or the arrival of items."""

    branch: str
    word: Literal["record", "execute", "arrival"]
    number: int = 0
    timeout_ms: int | None = None
    work: Any = None
    mode: Literal["all", "any"] = "all"
    items: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class _InFlight:
    stepped: list[str]
    detached: list[str]
    savepoint: dict[str, Any] | None
    has_wait: bool


class Core:
    """The state of one attempt."""

    def __init__(self, start: Start, codec: Codec | None = None) -> None:
        self.task_id: str = start.task_id
        self.origin: str = start.origin or start.task_id
        self.fence: int = start.fence
        self.codec: Codec | None = codec
        self._seed = start.seed
        #: What the function starts over with, and whether it does.
        self.resumed: Any = None
        self.has_resumed: bool = False
        self._base = 0
        self._highest = 0
        self._branches = {"": BranchState(start.created_at, start.created_at)}
        self._wants: dict[str, Want] = {}
        self._running: dict[str, int] = {}
        self._outcomes: dict[str, tuple[Any, Failure | None, Spend | None, list[Any]]] = {}
        self._finished: list[tuple[str, dict[str, Any]]] = []
        self._children: deque[tuple[str, dict[str, Any]]] = deque()
        self._in_flight: _InFlight | None = None
        self._commands: deque[Command] = deque()
        self._ending: Any = None
        self._unbegun: dict[int, Any] = {}
        self._last = "none"
        self.is_inside: bool = False
        self.is_closing: bool = False
        #: What is left of the run's budget, as the driver heard last.
        self.left: Left | None = None
        #: Where lines go that are no replay; None where no coordinator keeps them.
        self.lines: Callable[[str, str], None] | None = None
        savepoints = [place for place, each in enumerate(start.checkpoints) if each.savepoint]
        first = savepoints[-1] + 1 if savepoints else 0
        self._history = History(start.checkpoints[first:])
        if savepoints:
            self.start_over(start.checkpoints[first - 1])

    def start_over(self, savepoint: Checkpoint) -> None:
        """Begins again from a savepoint: its result is all that is left of what came before."""
        self._base = self._highest = parse(savepoint.key)[2]
        self._branches = {"": BranchState(savepoint.recorded_at, savepoint.recorded_at)}
        self.resumed = savepoint.result
        self.has_resumed = True
        self._wants.clear()
        self._unbegun.clear()

    # Operations.

    def made(self, operation: Any) -> None:
        """Remembers an operation until it is begun: one that never is stops the run."""
        self._unbegun[id(operation)] = operation

    def begun(self, operation: Any) -> None:
        """The operation is awaited, or given to another one."""
        if self._unbegun.pop(id(operation), None) is None and not self.is_closing:
            raise _stop.awaited_twice(operation.told())

    def begin(self, branch: str, label: str, at: str) -> None:
        """Begins an operation, if the branch is free."""
        state = self._branches[branch]
        self._check_free(state, branch, label, at)
        if state.inner_open:
            raise _stop.two_at_once(joined(branch, "…"), label, at)
        state.now = max(state.now, state.joined)
        state.busy = label

    def finish(self, branch: str) -> None:
        """The branch is free again."""
        self._branches[branch].busy = None

    def _check_free(self, state: BranchState, branch: str, wanted: str, at: str) -> None:
        if not state.is_open:
            raise _stop.branch_over(branch, at)
        if state.busy is not None:
            raise _stop.two_at_once(state.busy, wanted, at)

    def open(self, outer: str, branch: str, floor: int, at: str) -> None:
        """Opens a branch inside another one, no earlier than `floor`."""
        known = self._branches.get(branch)
        if known is not None and known.is_open:
            raise _stop.open_twice(branch, at)
        count = sum(state.is_open for state in self._branches.values())
        if count >= BRANCHES_MAX:
            raise _stop.too_many("open branches", count + 1, BRANCHES_MAX, at)
        state = self._branches[outer]
        self._check_free(state, outer, branch, at)
        state.inner_open += 1
        now = max(state.now, floor)
        if known is None:
            self._branches[branch] = BranchState(now, now)
        else:  # a name that is used again continues its counts
            known.is_open = True
            known.now = known.joined = max(known.now, now)

    def close(self, outer: str, branch: str) -> None:
        """A branch has ended. Its time reaches the outer branch with its next operation."""
        state = self._branches[branch]
        state.is_open = False
        above = self._branches[outer]
        above.inner_open -= 1
        above.joined = max(above.joined, state.now, state.joined)

    def joined_at(self, branch: str) -> int:
        """The latest time of a branch inside it."""
        return self._branches[branch].joined

    def count(self, branch: str, label: str) -> int:
        """Numbers the uses of one label in one branch."""
        counts = self._branches[branch].counts
        count = counts[label] = counts.get(label, self._base) + 1
        self._highest = max(self._highest, count)
        return count

    def enter(self, branch: str, label: str, name: str, input_digest: str | None, at: str) -> tuple[str, bool]:
        """Gives the operation its key and compares it with the record. Whether it is recorded."""
        # The highest count so far, and one: every count before a savepoint is smaller than those after it.
        count = self._highest + 1 if label == "savepoint" else self.count(branch, label)
        key = f"{joined(branch, label)}#{count}"
        if not fits(key):
            raise _stop.bad_name(name, at)
        self._last = f"`{key}` ({at})"
        state = self._branches[branch]
        try:
            is_recorded = self._history.enter(branch, key, input_digest)
        except Unlike as unlike:
            actual = Seen(key, input_digest)
            raise Divergence(unlike.difference, branch, state.index, unlike.recorded, actual, at) from None
        state.index += 1
        return key, is_recorded

    def enter_if_next(self, branch: str, label: str, name: str, digest: str | None, at: str) -> tuple[str, bool]:
        """The same for a member of `any`: one that lost left no record, so another key next is no difference."""
        if self.is_recorded_next(branch, label):
            return self.enter(branch, label, name, digest, at)
        key = f"{joined(branch, label)}#{self.count(branch, label)}"
        if not fits(key):
            raise _stop.bad_name(name, at)
        self._last = f"`{key}` ({at})"
        return key, False

    def is_recorded_next(self, branch: str, label: str) -> bool:
        """Whether the record's next operation of this branch is the next one of this label."""
        count = self._branches[branch].counts.get(label, self._base) + 1
        return self._history.is_next(branch, f"{joined(branch, label)}#{count}")

    def is_replaying(self, branch: str) -> bool:
        """Whether what the code does here was done before."""
        return not self._history.is_over(branch)

    def is_patched(self, branch: str, identity: str, at: str) -> bool:
        """Whether new code may take a new path: the record of the branch is over, or has the marker next."""
        patches = self._branches[branch].patches
        if identity in patches:
            return patches[identity]
        label = f"patched:{identity}"
        answer = self._history.is_over(branch) or self.is_recorded_next(branch, label)
        patches[identity] = answer
        if answer:
            key, is_recorded = self.enter(branch, label, identity, None, at)
            if is_recorded:
                self.take(branch, key)
            else:
                self.keep(branch, {"key": key, "outcome": "SUCCEEDED", "result": None})
        return answer

    def draw(self, branch: str, label: str) -> bytes:
        """32 bytes: a function of the seed, the branch, the label, and how often the label was used."""
        return drawn(self._seed, branch, label, self.count(branch, f"random:{label}"))

    def jitter(self, branch: str, key: str, number: int) -> int:
        """A number that differs between the tries of a step, and is the same in every replay."""
        return first_number(drawn(self._seed, branch, key, number))

    # Results.

    def has(self, key: str) -> bool:
        """Whether a result is here."""
        return self._history.has(key)

    def take(self, branch: str, key: str) -> Checkpoint | None:
        """Takes a result; the branch's time follows."""
        return self.take_first(branch, (key,))

    def take_first(self, branch: str, keys: tuple[str, ...]) -> Checkpoint | None:
        """Takes the result that was committed first; the branch's time follows."""
        checkpoint = self._history.take_first(keys)
        if checkpoint is not None:
            state = self._branches[branch]
            state.now = max(state.now, checkpoint.recorded_at)
        return checkpoint

    def forget_parts(self, operation: str) -> None:
        """Forgets the tries and timers of an operation that is over."""
        self._history.forget_parts(operation)

    def keep(self, branch: str, step: dict[str, Any]) -> Checkpoint:
        """Keeps a result for the next call. Later code sees what will be recorded."""
        state = self._branches[branch]
        state.unrecorded += 1
        self._finished.append((branch, step))
        return Checkpoint(
            step["key"], step["outcome"], step.get("result"), step.get("error"), step.get("inputDigest"), state.now
        )

    def start_child(self, branch: str, child: dict[str, Any]) -> None:
        """Keeps a child for the next call. Nothing else waits for a detached one, so its start counts as a result."""
        self._branches[branch].unrecorded += bool(child.get("detached"))
        self._children.append((branch, child))

    def sealed(self, value: Any) -> Any:
        """The stored form of a value."""
        return sealed(self.codec, value)

    def opened(self, value: Any) -> Any:
        """The plain form of a stored value. The code may change what it is given, but not the record."""
        return _json.copied(opened(self.codec, value))

    def digest(self, value: Any) -> str:
        """What identifies a value."""
        return digest_of(self.codec, value)

    # Waiting. Each of these is a part of an operation: `yield from` it.

    def until_recorded(self, branch: str, want_key: str) -> Waits:
        """Waits until all results of the branch are recorded, and returns its time."""
        state = self._branches[branch]
        if state.unrecorded:
            self._wants[want_key] = Want(branch, "record")
            yield Until(lambda: state.unrecorded == 0)
            self._wants.pop(want_key, None)
        return state.now

    def until_worked(self, branch: str, key: str, number: int, timeout_ms: int | None, work: Any) -> Waits:
        """Lets the work of a try start, and waits for its end."""
        self._wants[key] = Want(branch, "execute", number=number, timeout_ms=timeout_ms, work=work)
        outcomes = self._outcomes
        yield Until(lambda: key in outcomes)
        return outcomes.pop(key)

    def until_arrived(
        self, branch: str, want_key: str, mode: Literal["all", "any"], items: list[dict[str, Any]]
    ) -> Waits:
        """Waits until one of the items, or all of them, have arrived."""
        keys = [item["key"] for item in items]
        has, enough = self._history.has, all if mode == "all" else any

        def arrived() -> bool:
            return enough(has(key) for key in keys)

        if not arrived():
            self._wants[want_key] = Want(branch, "arrival", mode=mode, items=items)
            yield Until(arrived)
            self._wants.pop(want_key, None)

    # Endings.

    def end(self, ending: Any) -> None:
        """Ends the attempt. The first reason stands."""
        if self._ending is None and not self.is_closing:
            self._ending = ending

    def take_ending(self) -> Any:
        """Why the code is not resumed, if it is not."""
        ending, self._ending = self._ending, None
        return ending

    def end_by_foreign_await(self) -> None:
        """Something that is not `flow` is awaited."""
        self.end(_stop.foreign_await(self._last, self.unbegun()))

    def unbegun(self) -> list[str]:
        """Operations that were made and not awaited."""
        return [operation.told() for operation in self._unbegun.values()]

    def unreadable_savepoint(self, problem: str, at: str) -> Divergence:
        """The state of the last savepoint is not of the type that the code wants."""
        return Divergence("unreadable", "", 0, Seen(f"savepoint#{self._base}"), None, at, problem)

    def unreadable(self, branch: str, key: str, digest: str | None, problem: str, at: str) -> Divergence:
        """A recorded result is not of the type that the code wants."""
        index = max(0, self._branches[branch].index - 1)
        return Divergence("unreadable", branch, index, Seen(key, digest), None, at, problem)

    def unreached(self) -> Divergence | None:
        """What is recorded and was not reached is a divergence."""
        missing = self._history.unreached()
        if missing is None:
            return None
        branch, recorded = missing
        state = self._branches.get(branch)
        return Divergence("unreached", branch, state.index if state else 0, recorded)

    # Commands.

    def settle(self) -> bool:
        """Makes the next commands, or an ending, now that the code cannot go on. Whether there is one."""
        difference = self.unreached()
        if difference is not None:
            self.end(difference)
            return True
        self._start_steps()
        if self._in_flight is None:
            call = self._due_call()
            if call is not None:
                self._commands.append(call)
            elif not self._wants and not self._running:
                self.end_by_foreign_await()
        return self._ending is not None or bool(self._commands)

    def next_command(self) -> Command | None:
        """The next command, unless an ending is set."""
        return self._commands.popleft() if self._commands and self._ending is None else None

    def _start_steps(self) -> None:
        """Lets steps start whose branch has nothing unrecorded."""
        for key in sorted(self._wants):
            want = self._wants[key]
            if want.word == "execute" and self._branches[want.branch].unrecorded == 0:
                del self._wants[key]
                self._running[key] = want.number
                self._commands.append(Execute(key, want.number, want.timeout_ms, want.work))

    def _due_call(self) -> Record | None:
        """A call is due when an operation waits for a record, when children are to be started, and when all that is left
        is to wait."""
        is_blocked = any(want.word != "arrival" for want in self._wants.values())
        is_idle = not self._running and not is_blocked and bool(self._wants)
        if not is_blocked and not is_idle and not self._children:
            return None
        return self._call(is_idle)

    def _call(self, is_idle: bool) -> Record:
        steps = self._finished[:STEPS_PER_CALL_MAX]
        del self._finished[:STEPS_PER_CALL_MAX]
        many = min(len(self._children), CHILDREN_PER_CALL_MAX)
        children = [self._children.popleft() for _ in range(many)]
        is_all = not self._finished and not self._children
        wait = self._wait() if is_idle and is_all else None
        self._in_flight = _InFlight(
            [branch for branch, _ in steps],
            [branch for branch, child in children if child.get("detached")],
            next((step for _, step in steps if step.get("savepoint")), None),
            wait is not None,
        )
        return Record([step for _, step in steps], [child for _, child in children], wait)

    def _wait(self) -> dict[str, Any]:
        """One wait for all operations that wait. A single one says whether it needs all of its items; several need any."""
        wants = [self._wants[key] for key in sorted(self._wants)]
        items = [item for want in wants for item in want.items if not self._history.has(item["key"])]
        mode = wants[0].mode if len(wants) == 1 else "any"
        wait: dict[str, Any] = {"key": wait_key(items), "mode": mode, "for": items}
        spans = [_until(item) - self._branches[want.branch].now for want in wants for item in want.items]
        longest = max(spans, default=0) + DAY_MS
        if longest > WAIT_MS_DEFAULT:
            wait["maxMs"] = longest
        return wait

    def recorded(self, answer: Recorded) -> None:
        """Takes in the answer to the last call."""
        call, self._in_flight = self._in_flight, None
        assert call is not None, "an answer follows a call"
        for branch in (*call.detached, *call.stepped):
            self._branches[branch].unrecorded -= 1
        for branch in call.stepped:
            state = self._branches[branch]
            state.now = max(state.now, answer.recorded_at)
        for result in answer.results:
            self._history.arrive(result)
        if answer.state != "running":
            self.end(Last("suspend" if answer.state == "waiting" else "halt"))
        elif answer.should_cancel:
            self.end(Last("cancel"))
        elif call.has_wait and not answer.results:
            self.end(_stop.empty_answer())
        if call.savepoint is not None:
            step = call.savepoint
            self.end(Checkpoint(step["key"], "SUCCEEDED", step["result"], recorded_at=answer.recorded_at))

    def worked(
        self, key: str, number: int, result: Any, failure: Failure | None, spend: Spend | None, effects: list[Any]
    ) -> None:
        """The work of a try has ended. One whose time is over says nothing any more."""
        if self._running.get(key) == number:
            del self._running[key]
            self._outcomes[key] = (result, failure, spend, effects)

    def take_rest(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """What rides with the report."""
        steps = [step for _, step in self._finished]
        children = [child for _, child in self._children]
        self._finished.clear()
        self._children.clear()
        return steps, children

    @property
    def has_call_under_way(self) -> bool:
        """Whether an answer is outstanding."""
        return self._in_flight is not None


def _until(item: dict[str, Any]) -> int:
    """When time alone brings an item, in milliseconds; 0 if it does not."""
    text = item.get("until") or item.get("approval", {}).get("expiresAt")
    return time_ms(text) if text else 0


def wait_key(items: list[dict[str, Any]]) -> str:
    """The name of a wait follows from its items."""
    if len(items) == 1:
        return f"wait:{items[0]['key']}"
    text = "".join(f"{item['key']}\n" for item in items)
    return f"wait:{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def drawn(seed: int, branch: str, label: str, count: int) -> bytes:
    """The bytes of one draw."""
    return hashlib.sha256(f"{seed}\n{branch}\n{label}\n{count}".encode()).digest()


def first_number(drawn_bytes: bytes) -> int:
    """The first eight bytes, as a number."""
    return int.from_bytes(drawn_bytes[:8], "big")
