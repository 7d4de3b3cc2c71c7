"""Many coroutines wait for the ends of runs, and few calls are open for all of them.

Waits that begin within a moment share one call. It is answered as soon as one of its runs has ended; those that have not
join the next call. Nothing of a wait is stored, so a call may be dropped: when a wait begins and enough calls are open,
the oldest is dropped and its runs join the new one.

A coordinator that does not know the call answers 404. Each wait is a call of its own then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from . import _calls
from ._calls import Call
from .errors import Refused

#: The coordinator's limit of one call.
RUNS_PER_CALL_MAX = 256
#: Calls that have room for more runs. Short runs end before this many are open; for long ones two would be enough.
CALLS_WITH_ROOM_MAX = 4
#: Waits that begin, and runs that end, within this time share a call.
GATHER_SECONDS = 0.001
#: An answer without an end before its time: the coordinator is shutting down.
EARLY_SECONDS = 0.1

Waiter = asyncio.Future[Any]


class Results:
    """The waits of one client, on one event loop."""

    def __init__(self, send: Callable[[Call], Awaitable[Any]]) -> None:
        self._send = send
        #: Every wait, by run.
        self._waiters: dict[str, set[Waiter]] = {}
        #: Runs that the next call asks for.
        self._next: dict[str, None] = {}
        #: The runs of each open call, the oldest first.
        self._open: dict[asyncio.Task[None], list[str]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_known = True

    async def ended(self, run_id: str, wait_ms: int | None) -> Any:
        """The run as soon as it has ended, perhaps without its input, or as it is after `wait_ms`."""
        if not self._is_known or wait_ms == 0:
            return await self._alone(run_id, wait_ms)
        waiter: Waiter = asyncio.get_running_loop().create_future()
        others = self._waiters.setdefault(run_id, set())
        if not others:
            self._ask(run_id)
        others.add(waiter)
        try:
            if wait_ms is None:
                run = await waiter
            else:
                async with asyncio.timeout(wait_ms / 1000):
                    run = await waiter
        except TimeoutError:
            return await self._alone(run_id, 0)
        finally:
            others.discard(waiter)
            if not others and self._waiters.get(run_id) is others:
                del self._waiters[run_id]
        return await self._alone(run_id, wait_ms) if run is None else run

    def close(self) -> None:
        """Drops the calls for which nothing waits any more."""
        for call, runs in list(self._open.items()):
            if self._waiters.keys().isdisjoint(runs):
                call.cancel()

    async def _alone(self, run_id: str, wait_ms: int | None) -> Any:
        return await self._send(_calls.ended(run_id, wait_ms))

    def _ask(self, run_id: str, delay: float = GATHER_SECONDS) -> None:
        self._next[run_id] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(delay, self._begin)

    def _begin(self) -> None:
        """Sends what has gathered."""
        self._timer = None
        with_room = [call for call, runs in self._open.items() if len(runs) < RUNS_PER_CALL_MAX]
        if len(with_room) >= CALLS_WITH_ROOM_MAX:
            oldest = with_room[0]
            self._next.update(dict.fromkeys(self._open.pop(oldest)))
            oldest.cancel()
        wanted = [run for run in self._next if run in self._waiters]
        self._next.clear()
        for first in range(0, len(wanted), RUNS_PER_CALL_MAX):
            runs = wanted[first : first + RUNS_PER_CALL_MAX]
            call = asyncio.ensure_future(self._wait(runs))
            self._open[call] = runs
            call.add_done_callback(self._over)

    def _over(self, call: asyncio.Task[None]) -> None:
        self._open.pop(call, None)

    async def _wait(self, runs: list[str]) -> None:
        body = {"runIds": runs, "waitMs": _calls.WAIT_MS_MAX}
        loop = asyncio.get_running_loop()
        sent = loop.time()
        try:
            answer = await self._send(_calls.post("/v1/waits", body, wait_ms=_calls.WAIT_MS_MAX))
        except Refused as error:
            if error.status in (404, 405):
                self._is_known = False
                self._settle_all(runs, None)
            else:
                self._settle_all(runs, error)
            return
        except Exception as error:
            self._settle_all(runs, error)
            return
        for run in answer["ended"]:
            self._settle(run["runId"], run)
        for run_id in answer["notFound"]:
            self._settle(run_id, None)  # the run's own call says why
        is_early = len(answer["pending"]) == len(runs) and loop.time() < sent + _calls.WAIT_MS_MAX / 2000
        for run_id in answer["pending"]:
            if run_id in self._waiters:
                self._ask(run_id, EARLY_SECONDS if is_early else GATHER_SECONDS)

    def _settle_all(self, runs: list[str], outcome: Any) -> None:
        for run_id in runs:
            self._settle(run_id, outcome)

    def _settle(self, run_id: str, outcome: Any) -> None:
        """Tells everyone who waits for a run: what it is, None if it must be asked for alone, or an error."""
        for waiter in self._waiters.pop(run_id, ()):
            if waiter.done():
                continue
            if isinstance(outcome, BaseException):
                waiter.set_exception(outcome)
            else:
                waiter.set_result(outcome)
