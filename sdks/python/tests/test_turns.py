"""The engine replays every turn file of the protocol: commands out, answers in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tenure import _commands, _engine, _json
from tenure._checkpoints import checkpoints_of
from tenure._commands import Complete, Execute, Last, Record, Recorded, Start
from tenure._engine import Core
from tenure._op import Op, write_ms
from tenure._run import Run
from tenure._steps import Step, pause_ms
from tenure._stop import Divergence
from tenure.failure import Failure, StepFailed
from tenure.flow import Flow
from tenure.options import Retry
from tenure.task import Kind

DURABLE = Path(__file__).resolve().parents[3] / "protocol" / "scenarios" / "durable"
SQUARE: Kind[Any, Any] = Kind("square", queue="numbers", input=object, output=object)


def waiting(flow: Flow, operation: Any) -> Op[Any]:
    """An operation that waits without a worker."""
    [(word, told)] = operation.items()
    if word == "sleep":
        return flow.sleep(told / 1000) if isinstance(told, int) else flow.sleep(told["name"], seconds=told["ms"] / 1000)
    if word == "approval":
        return flow.approval(
            told["name"],
            about=told["about"],
            quorum=told.get("quorum", 1),
            within=told["withinMs"] / 1000,
            default="REJECTED",
        )
    limited: Any = (
        flow.signal(told["name"]) if word == "signal" else flow.call(SQUARE, told["input"]).named(told["name"])
    )
    result: Op[Any] = limited.within(told["withinMs"] / 1000) if "withinMs" in told else limited
    return result


class Script:
    """A durable function that is written as a list of operations."""

    def __init__(self, operations: list[Any]) -> None:
        self.operations = operations

    async def run(self, flow: Flow) -> Any:
        return await self.each(flow, self.operations)

    async def each(self, flow: Flow, operations: list[Any]) -> list[Any]:
        return [await self.one(flow, operation) for operation in operations]

    async def one(self, flow: Flow, operation: Any) -> Any:
        if operation == "now":
            return await flow.now()
        [(word, told)] = operation.items()
        return await getattr(self, f"do_{word}")(flow, told)

    async def do_step(self, flow: Flow, told: Any) -> Any:
        try:
            return await self.step(flow, told)
        except StepFailed as failure:
            return {"failed": failure.message}

    def step(self, flow: Flow, told: Any) -> Op[Any]:
        def work(step: Step) -> Any:
            if told.get("tokens"):
                step.spend(tokens=told["tokens"])
            fails = told.get("fails", [])
            if step.number <= len(fails):
                raise Failure(fails[step.number - 1])
            return told.get("returns")

        work.holds = bool(told.get("holds"))  # type: ignore[attr-defined]
        options: dict[str, Any] = {"on_error": "abort" if told.get("aborts") else "continue"}
        if "input" in told:
            options["input"] = told["input"]
        if "tries" in told:
            options["retry"] = Retry(told["tries"], base=0.1)
        if "timeoutMs" in told:
            options["timeout"] = told["timeoutMs"] / 1000
        return flow.step(told["name"], work, bind=True, **options)

    async def do_sleep(self, flow: Flow, told: Any) -> Any:
        return await waiting(flow, {"sleep": told})

    async def do_signal(self, flow: Flow, told: Any) -> Any:
        return await waiting(flow, {"signal": told})

    async def do_approval(self, flow: Flow, told: Any) -> Any:
        approval = await waiting(flow, {"approval": told})
        return [approval.outcome, approval.reason]

    async def do_child(self, flow: Flow, told: Any) -> Any:
        if told.get("detached"):
            return await flow.call(SQUARE, told["input"]).named(told["name"]).detach()
        try:
            return await waiting(flow, {"child": told})
        except Failure as failure:
            return {"failed": failure.message}

    async def do_all(self, flow: Flow, told: list[Any]) -> Any:
        try:
            return list(await flow.all(*(self.member(flow, operation) for operation in told)))
        except Failure as failure:
            return {"failed": failure.message}

    async def do_any(self, flow: Flow, told: dict[str, Any]) -> Any:
        try:
            return list(await flow.any(**{name: waiting(flow, each) for name, each in sorted(told.items())}))
        except Failure as failure:
            return {"failed": failure.message}

    def member(self, flow: Flow, operation: Any) -> Op[Any]:
        """A member of `all`."""
        if "step" in operation:
            return self.step(flow, operation["step"])
        if "branch" in operation:
            return flow.branch(operation["branch"]["name"], self.each, operation["branch"]["ops"])
        return waiting(flow, operation)

    async def do_children(self, flow: Flow, told: Any) -> Any:
        operation = flow.map(SQUARE, told["inputs"], max=told.get("max"))
        for call in operation._calls:  # type: ignore[attr-defined]
            call.named(told["name"])
        operation._label, operation._name = f"child:{told['name']}", told["name"]
        return await operation

    async def do_branches(self, flow: Flow, told: Any) -> Any:
        return list(await flow.all(*(flow.branch(name, self.each, each) for name, each in sorted(told.items()))))

    async def do_random(self, flow: Flow, told: str) -> Any:
        return str(flow.random_u64(told))

    async def do_patched(self, flow: Flow, told: Any) -> Any:
        return await self.each(flow, told["then"] if flow.patched(told["id"]) else told["otherwise"])

    async def do_savepointAfter(self, flow: Flow, told: Any) -> Any:
        resumed = flow.resumed()
        if resumed is not None:
            return resumed
        await self.each(flow, told["first"])
        return await flow.savepoint(told["state"])


def as_json(command: Any) -> Any:
    """A command in the form of the files."""
    if isinstance(command, Execute):
        shown: dict[str, Any] = {"key": command.key, "try": command.number}
        return {"execute": shown if command.timeout_ms is None else {**shown, "timeoutMs": command.timeout_ms}}
    if isinstance(command, Last):
        return command.word
    members: dict[str, Any] = {"steps": command.steps, "children": command.children}
    if isinstance(command, Record):
        return {"checkpoint": {name: each for name, each in {**members, "wait": command.wait}.items() if each}}
    assert isinstance(command, Complete)
    shown = {name: each for name, each in members.items() if each} | {"outcome": command.outcome}
    if command.error is not None:
        return {"complete": {**shown, "error": command.error.to_json()}}
    return {"complete": {**shown, "output": command.output}}


class Player:
    """Plays the turns of one file."""

    def __init__(self, scenario: Any) -> None:
        start = scenario["start"]
        self.script = Script(scenario["function"])
        checkpoints = checkpoints_of([{"kind": "STEP", **each} for each in start["checkpoints"]])
        core = Core(
            Start(start["taskId"], start["fence"], start["seed"], _commands.time_ms(start["createdAt"]), checkpoints)
        )
        self.run = Run(core, lambda core: self.script.run(Flow(core)))
        self.held: dict[str, Execute] = {}

    def play(self, turn: Any) -> None:
        if turn == "idle":
            assert self.run.poll() is None
            return
        [(word, told)] = turn.items()
        getattr(self, f"on_{word}")(told)

    def on_command(self, told: Any) -> None:
        command = self.run.poll()
        assert as_json(command) == told
        if isinstance(command, Execute):
            if command.work[0].holds:
                self.held[command.key] = command
            else:
                self.execute(command)

    def execute(self, command: Execute) -> None:
        fn, args, _ = command.work
        step = Step(self.run.core, command.key, command.number)
        try:
            result = fn(step, *args)
        except Failure as failure:
            self.run.worked(command.key, command.number, error=failure, spend=step._spent)
        else:
            self.run.worked(command.key, command.number, result, spend=step._spent)

    def on_finish(self, key: str) -> None:
        self.execute(self.held.pop(key))

    def on_recorded(self, told: Any) -> None:
        results = checkpoints_of([{"kind": "STEP", **each} for each in told.get("results", [])])
        recorded_at = _commands.time_ms(told["recordedAt"])
        self.run.recorded(Recorded(told["state"], recorded_at, results, told.get("shouldCancel", False)))

    def on_timeOut(self, told: Any) -> None:
        self.run.time_out(told["key"], told["try"])

    def on_diverged(self, told: Any) -> None:
        with pytest.raises(Divergence) as raised:
            self.run.poll()
        stop = raised.value
        actual = None if stop.actual is None else stop.actual.key
        recorded = stop.recorded and stop.recorded.key
        assert told == {"branch": stop.branch, "index": stop.index, "recorded": recorded, "actual": actual}


@pytest.mark.parametrize("path", sorted((DURABLE / "turns").glob("*.json")), ids=lambda path: path.stem)
def test_the_engine_says_what_the_file_expects(path: Path) -> None:
    scenario = json.loads(path.read_text())
    player = Player(scenario)
    for turn in scenario["turns"]:
        player.play(turn)


def test_digests_are_those_of_the_other_engines() -> None:
    for case in json.loads((DURABLE / "digests.json").read_text()):
        assert _json.digest(case["json"]) == case["digest"], case


def test_draws_are_those_of_the_other_engines() -> None:
    for case in json.loads((DURABLE / "numbers.json").read_text()):
        drawn = _engine.drawn(case["seed"], case["branch"], case["label"], case["count"])
        assert str(_engine.first_number(drawn)) == case["number"]
        if not case["branch"]:
            assert fresh(case).random(case["label"]) == case["unit"]
            assert str(fresh(case).uuid(case["label"])) == case["uuid"]


def fresh(case: Any) -> Flow:
    """A flow whose next draw is the one of the case."""
    flow = Flow(Core(Start("task_1", 1, case["seed"], 0, [])))
    for _ in range(case["count"] - 1):
        flow.random(case["label"])
    return flow


def test_the_pause_between_tries_doubles_up_to_its_cap() -> None:
    retry = Retry(9, base=1, cap=5)
    assert [pause_ms(retry, number, 0) for number in (1, 2, 3, 4, 50)] == [1000, 2000, 4000, 5000, 5000]
    assert [pause_ms(retry, 1, draw) for draw in (500, 501)] == [1500, 1000]
    assert write_ms(1_767_225_600_127) == "2026-01-01T00:00:00.127Z"
