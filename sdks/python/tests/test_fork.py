"""A client that was made before a fork, as servers with prefork do: child and parent have connections of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from stub import Request, Stub

from tenure import AsyncClient, Client, Setup
from tenure._http import AsyncTransport
from tenure._voice import voice

PATIENCE = 30.0

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def in_child(act: Callable[[], str]) -> str:
    """What this returns in a forked child, or the error that it raises there."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(int(PATIENCE))  # one that hangs ends by itself
        try:
            told = act()
        except BaseException as error:
            told = repr(error)
        os.write(write_end, told.encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return told


class Ports:
    """Answers with the port that the question came from: what names a connection."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, request: Request) -> dict[str, Any]:
        self.seen.append(request.peer)
        return {"version": request.peer}


def version(client: Client) -> str:
    return str(client.version()["version"])


def test_a_child_has_connections_of_its_own() -> None:
    with Stub(Ports()) as stub, Client(stub.url, "k") as client:
        before = version(client)
        assert version(client) == before, "an unused connection is kept"
        childs = in_child(lambda: version(client))
        assert childs.isdigit(), childs
        assert childs != before
        assert version(client) == before, "what the child did leaves the parent's connection as it was"


def test_a_lock_that_was_held_does_not_stop_the_child() -> None:
    with Stub(Ports()) as stub, Client(stub.url, "k") as client:
        version(client)
        held, let_go = threading.Event(), threading.Event()

        def hold() -> None:
            with client._transport._lock:
                held.set()
                let_go.wait(PATIENCE)

        holder = threading.Thread(target=hold)
        holder.start()
        held.wait(PATIENCE)
        told: list[str] = []
        asking = threading.Thread(target=lambda: told.append(in_child(lambda: version(client))), daemon=True)
        asking.start()
        asking.join(PATIENCE)
        let_go.set()
        holder.join()
        assert told
        assert told[0].isdigit(), told


def test_what_a_child_has_to_say_waits_for_no_lock_of_its_parent() -> None:
    held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with voice._changed:
            held.set()
            let_go.wait(PATIENCE)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(PATIENCE)

    def say() -> str:
        voice.warning("from a child")
        voice.flush()
        return "said"

    told = in_child(say)
    let_go.set()
    holder.join()
    assert told == "said"


async def aversion(client: AsyncClient) -> str:
    return str((await client.version())["version"])


def test_an_asynchronous_client_begins_anew_in_a_child_and_leaves_the_parent_alone() -> None:
    with Stub(Ports()) as stub:
        client = AsyncClient(stub.url, "k")

        async def parent() -> tuple[str, str, str]:
            before = await aversion(client)
            child = await asyncio.to_thread(in_child, lambda: asyncio.run(aversion(client)))
            return before, child, await aversion(client)

        before, child, after = asyncio.run(parent())
        assert child.isdigit(), child
        assert before == after, "the loop of the parent still has its connection"
        assert child != before


def test_an_asynchronous_client_moves_to_the_next_loop() -> None:
    """As where each request, or each test, has a loop of its own."""
    with Stub(Ports()) as stub:
        client = AsyncClient(stub.url, "k")
        first, second = asyncio.run(aversion(client)), asyncio.run(aversion(client))
    assert Counter([first, second]).most_common(1)[0][1] == 1


def test_two_loops_at_once_are_told() -> None:
    with Stub(Ports()) as stub:
        client = AsyncClient(stub.url, "k")

        async def outer() -> None:
            await aversion(client)
            with pytest.raises(Setup, match="in use in another event loop"):
                await asyncio.to_thread(asyncio.run, aversion(client))

        asyncio.run(outer())


def test_only_the_first_use_binds_a_transport() -> None:
    assert AsyncTransport(AsyncClient("http://127.0.0.1:1", "k")._settings)._bound is None
