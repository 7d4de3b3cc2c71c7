"""What a worker tells of its kinds: schemas from type hints, once, and nothing where it is not understood."""

from __future__ import annotations

import asyncio
import enum
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

import pytest
from pydantic import BaseModel
from stub import Request, Stub, problem

from tenure import Client, Flow, Setup, Task, Worker, durable, task
from tenure._announcement import KINDS_MAX, Announcement
from tenure._calls import Address
from tenure._schema import schema_of

HERE = Address("127.0.0.1", 1, False, "")
THERE = Address("127.0.0.1", 2, False, "")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(NamedTuple):
    x: int
    y: int = 0


class Note(TypedDict):
    text: str
    by: NotRequired[str]


class Model(BaseModel):
    size: int


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)
    seen: datetime | None = None


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (Any, {}),
        (str, {"type": "string"}),
        (float, {"type": "number"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, bool], {"type": "object", "additionalProperties": {"type": "boolean"}}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Literal["a", 1], {"enum": ["a", 1]}),
        (Colour, {"enum": ["red", "blue"]}),
        (bytes, {"type": "string", "contentEncoding": "base64"}),
    ],
    ids=str,
)
def test_a_hint_is_a_schema(hint: Any, schema: dict[str, Any]) -> None:
    assert schema_of(hint) == schema


def test_objects_are_definitions_and_may_contain_themselves() -> None:
    schema = schema_of(Tree)
    assert schema["$ref"] == "#/$defs/Tree"
    tree = schema["$defs"]["Tree"]
    assert tree["required"] == ["name"]
    assert tree["properties"]["children"] == {"type": "array", "items": {"$ref": "#/$defs/Tree"}}
    assert schema_of(Note)["$defs"]["Note"]["required"] == ["text"]
    assert schema_of(Point)["$defs"]["Point"]["required"] == ["x"]
    pair = schema_of(tuple[int, Point])
    assert (pair["minItems"], pair["maxItems"]) == (2, 2)
    assert schema_of(Model)["properties"]["size"]["type"] == "integer"


@task(queue="told")
def greet(name: str, times: int = 1) -> list[str]:
    return [name] * times


def test_a_task_describes_its_parameters_and_its_result() -> None:
    text, integer = {"type": "string"}, {"type": "integer"}
    properties = {"name": text, "times": integer}
    assert greet.input_schema() == {"type": "object", "properties": properties, "required": ["name"]}
    assert greet.output_schema() == {"type": "array", "items": text}


def announced(announcement: Announcement, address: Address = HERE) -> Any:
    return announcement.members(address).get("announce")


def test_it_goes_out_once_to_each_coordinator_and_again_when_asked_for() -> None:
    announcement = Announcement([greet])
    content = announced(announcement)
    assert [kind["kind"] for kind in content["kinds"]] == ["greet"]
    announcement.answered(HERE, {"leases": []})
    assert announcement.members(HERE) == {"announced": content["id"]}
    assert announced(announcement, THERE) == content
    announcement.answered(HERE, {"leases": [], "announceAgain": True})
    assert announced(announcement) == content


def test_the_build_is_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = announced(Announcement([greet]))
    monkeypatch.setenv("TENURE_BUILD_ID", "2026-11-18.3")
    content = announced(Announcement([greet]))
    assert content["buildId"] == "2026-11-18.3"
    assert content["id"] != before["id"]
    monkeypatch.setenv("TENURE_BUILD_ID", "two words")
    with pytest.raises(Setup, match="TENURE_BUILD_ID"):
        Announcement([greet])


def test_what_is_too_large_is_left_out() -> None:
    @task()
    def wide(choice: str) -> str:
        return choice

    wide.signature.input_schema = lambda: {"enum": ["x" * 20_000]}  # type: ignore[method-assign]
    [kind] = announced(Announcement([wide]))["kinds"]
    assert "inputSchema" not in kind
    assert kind["outputSchema"] == {"type": "string"}
    many: list[Task[..., Any]] = [greet] * (KINDS_MAX + 1)
    assert Announcement(many).members(HERE) == {}
    [hidden] = announced(Announcement([greet], has_codec=True))["kinds"]
    assert hidden == {"kind": "greet"}


def polls_of(reply: Any, count: int) -> list[Any]:
    """The first polls of a worker, whose coordinator answers like this."""
    polls: list[Any] = []

    async def serve(url: str) -> None:
        worker = Worker(greet, client=Client(url, "key"))
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        stopping.append(lambda: loop.call_soon_threadsafe(stop.set))
        serving = asyncio.create_task(worker.serve())
        await stop.wait()
        worker.stop()
        await serving

    stopping: list[Any] = []

    def answer(request: Request) -> Any:
        polls.append(request.json)
        if len(polls) == count:
            stopping[0]()
        return reply(request.json, len(polls))

    with Stub(answer) as stub:
        asyncio.run(serve(stub.url))
    return polls[:count]


EMPTY = {"leases": [], "serverTime": "2026-01-01T00:00:00.000Z"}


def test_a_worker_announces_with_its_first_poll_and_names_it_afterwards() -> None:
    first, second, third, fourth = polls_of(
        lambda _, number: {**EMPTY, "announceAgain": True} if number == 2 else EMPTY, count=4
    )
    content = first["announce"]
    assert (second.get("announce"), second["announced"]) == (None, content["id"])
    assert third["announce"] == content
    assert fourth["announced"] == content["id"]


@pytest.mark.parametrize("names_it", [True, False])
@pytest.mark.parametrize("field", ["announce", "announced"])
def test_an_older_coordinator_is_polled_without(field: str, names_it: bool) -> None:
    def older(poll: Any, _: int) -> Any:
        if field in poll:
            return problem(400, "invalid_argument", **({"field": field} if names_it else {}))
        return EMPTY

    refused = 1 if field == "announce" else 2
    polls = polls_of(older, count=refused + 2)
    assert field in polls[refused - 1]
    after = polls[refused:]
    assert all("announce" not in poll and "announced" not in poll for poll in after)
    assert after[0]["pollId"] == polls[refused - 1]["pollId"], "it is the same poll, without what was not understood"


def test_a_client_lists_what_workers_announced() -> None:
    pages = [{"kinds": [{"kind": "a"}], "nextAfter": "a"}, {"kinds": [{"kind": "b"}]}]
    with Stub(*pages) as stub, Client(stub.url, "key") as client:
        assert [found["kind"] for found in client.kinds.list()] == ["a", "b"]
        assert [request.path for request in stub.requests] == ["/v1/kinds", "/v1/kinds?after=a"]
        list(client.kinds.list("greet"))
        assert stub.requests[-1].path == "/v1/kinds?kind=greet"


def test_a_durable_function_says_which_builds_may_continue_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    @durable(builds="pin")
    async def order(flow: Flow) -> None:
        await flow.step("a", int)

    with pytest.raises(Setup, match="`order` says which builds"):
        Announcement([order])
    monkeypatch.setenv("TENURE_BUILD_ID", "7")
    announced = Announcement([order, task()(len)]).members(HERE)["announce"]
    assert announced["buildId"] == "7"
    assert [kind.get("builds") for kind in announced["kinds"]] == ["pin", None]
    sealed = Announcement([order], has_codec=True).members(HERE)["announce"]
    assert sealed["kinds"] == [{"kind": "order", "builds": "pin"}]
