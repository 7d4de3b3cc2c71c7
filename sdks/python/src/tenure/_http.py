"""HTTP/1.1 on asyncio, for calls to a coordinator: kept connections, one request at a time on each.

It knows what a coordinator sends (a status, `Content-Length` or chunks, JSON) and no more: no redirects, no proxies, no
compression, no pipelining. Half an answer is none.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from typing import Any, NamedTuple

from . import _calls
from ._calls import Address, Addresses, Answer, Call, NoAnswer, Settings, Tries
from ._results import Results
from .errors import Refused, Setup, TenureError

#: Many coroutines that wait for runs hold a connection each; beyond this many they are not kept.
IDLE_MAX = 64
#: The coordinator's limit of one batch.
SUBMISSIONS_MAX = 1000
SUBMISSION_BYTES_MAX = 512 * 1024
_HEAD_BYTES_MAX = 64 * 1024


class Connection(asyncio.Protocol):
    """One connection: sends a request, collects its answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._waiter: asyncio.Future[Answer] | None = None
        self._head: tuple[int, float | None, int | None] | None = None
        self._stays_open = True
        self.is_open = True
        self.idle_since = 0.0

    # Called by the loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._fail(NoAnswer(str(exc) if exc else "the connection was closed"))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        try:
            answer = self._parse()
        except ValueError as error:
            self._fail(NoAnswer(f"an answer that is no HTTP: {error}"))
            self.close()
            return
        waiter = self._waiter
        if answer is not None and waiter is not None:
            self._waiter = None
            if not self._stays_open or self._buffer:
                self.close()
            if not waiter.done():
                waiter.set_result(answer)

    # Called by the transport.

    async def exchange(self, request: bytes, timeout: float) -> Answer:
        """Sends a request and waits for its whole answer."""
        waiter: asyncio.Future[Answer] = self._loop.create_future()
        self._waiter = waiter
        self._head = None
        timer = self._loop.call_later(timeout, self._fail, NoAnswer(f"no answer within {timeout:g} s"))
        assert self._transport is not None, "a connection is made before it is used"
        self._transport.write(request)
        try:
            return await waiter
        except BaseException:
            self.close()  # an answer that comes later belongs to nothing
            raise
        finally:
            timer.cancel()

    def close(self) -> None:
        """Closes it, whatever it is doing."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, error: NoAnswer) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)

    def _parse(self) -> Answer | None:
        if self._head is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > _HEAD_BYTES_MAX:
                    raise ValueError("its head does not end")
                return None
            self._head = self._parse_head(bytes(self._buffer[:end]))
            del self._buffer[: end + 4]
        status, retry_after, length = self._head
        body = self._chunks() if length is None else self._exactly(length)
        return None if body is None else Answer(status, body, retry_after)

    def _parse_head(self, head: bytes) -> tuple[int, float | None, int | None]:
        lines = head.decode("latin-1").split("\r\n")
        version, _, rest = lines[0].partition(" ")
        if not version.startswith("HTTP/1."):
            raise ValueError(f"it begins with `{lines[0][:40]}`")
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        self._stays_open = headers.get("connection", "").lower() != "close"
        retry_after = _calls.seconds(headers.get("retry-after"))
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return int(rest[:3]), retry_after, None
        length = int(headers.get("content-length", "0"))
        if not 0 <= length <= _calls.ANSWER_BYTES_MAX:
            raise ValueError(f"a body of {length} bytes")
        return int(rest[:3]), retry_after, length

    def _exactly(self, length: int) -> bytes | None:
        if len(self._buffer) < length:
            return None
        body = bytes(self._buffer[:length])
        del self._buffer[:length]
        return body

    def _chunks(self) -> bytes | None:
        """The whole body, once its last chunk is here."""
        body, place = bytearray(), 0
        while True:
            end = self._buffer.find(b"\r\n", place)
            if end < 0:
                return None
            size = int(bytes(self._buffer[place:end]).split(b";")[0], 16)
            place = end + 2
            if size == 0:
                if len(self._buffer) < place + 2:
                    return None
                del self._buffer[: place + 2]
                return bytes(body)
            if len(self._buffer) < place + size + 2:
                return None
            body += self._buffer[place : place + size]
            place += size + 2


class _Here:
    """What a transport has in one event loop: connections, and calls that are shared."""

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: AsyncTransport) -> None:
        self.loop = loop
        self.process = os.getpid()
        self.idle: deque[tuple[Address, Connection]] = deque()
        self.submissions = Submissions(transport)
        self.results = Results(transport.call)

    def is_in_use(self) -> bool:
        """Whether the loop runs in this process. After a fork, that of the parent does not."""
        return self.process == os.getpid() and self.loop.is_running()


class AsyncTransport:
    """Sends calls to the coordinator, and again where nothing was decided. Belongs to one event loop at a time.

    In another loop, and in a child process, it begins anew: connections of a loop cannot be used outside it, and those of a
    parent would give the child the answers of the parent.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._addresses = Addresses(settings.addresses)
        self._tls = settings.tls()
        self._bound: _Here | None = None

    @property
    def address(self) -> Address:
        """The coordinator that is asked now."""
        return self._addresses.current

    async def call(self, call: Call) -> Any:
        """The result of a call; raises a refusal."""
        tries = Tries(self._settings.retries, self._addresses)
        while True:
            address = self._addresses.current
            try:
                return await self.call_once(call)
            except TenureError as error:
                pause = tries.pause_after(address, error)
            await asyncio.sleep(pause)

    async def call_once(self, call: Call) -> Any:
        """One try. The caller decides about another one."""
        address = self._addresses.current
        try:
            answer = await self._send(address, call)
        except NoAnswer as silence:
            raise _calls.unreachable(address, silence) from silence
        return _calls.judge(address, answer)

    def move_past(self, address: Address) -> None:
        """After a try that decided nothing: the next one goes to the next address."""
        self._addresses.move_past(address)

    async def submit(self, run: dict[str, Any], key: str) -> Any:
        """Submits one run. Submissions that wait for a call go out together."""
        return await self._here().submissions.submit(run, key)

    async def ended(self, run_id: str, wait_ms: int | None) -> Any:
        """The run as soon as it has ended, or as it is after a while. Waits share their calls."""
        return await self._here().results.ended(run_id, wait_ms)

    async def close(self) -> None:
        """Closes the connections that are not in use."""
        here = self._here()
        here.results.close()
        while here.idle:
            here.idle.pop()[1].close()
        await asyncio.sleep(0)

    def _here(self) -> _Here:
        loop = asyncio.get_running_loop()
        if self._bound is None or self._bound.loop is not loop:
            if self._bound is not None and self._bound.is_in_use():
                raise Setup(
                    "this client is in use in another event loop", next_step="make an AsyncClient for each event loop"
                )
            self._bound = _Here(loop, self)
        return self._bound

    async def _send(self, address: Address, call: Call) -> Answer:
        request = call.head(address, self._settings.api_key) + (call.body or b"")
        connection = self._take(address) or await self._connect(address)
        return self._kept(address, connection, await connection.exchange(request, call.timeout))

    async def _connect(self, address: Address) -> Connection:
        loop = asyncio.get_running_loop()
        tls = self._tls if address.is_tls else None
        made = loop.create_connection(lambda: Connection(loop), address.host, address.port, ssl=tls)
        try:
            async with asyncio.timeout(_calls.CONNECT_SECONDS):
                _, connection = await made
        except (OSError, TimeoutError) as error:
            raise NoAnswer(str(error) or "no connection in time") from error
        return connection

    def _take(self, address: Address) -> Connection | None:
        here = self._here()
        oldest = here.loop.time() - _calls.IDLE_SECONDS
        while here.idle:
            of, connection = here.idle.pop()
            if of == address and connection.is_open and connection.idle_since >= oldest:
                return connection
            connection.close()
        return None

    def _kept(self, address: Address, connection: Connection, answer: Answer) -> Answer:
        if connection.is_open:
            here = self._here()
            connection.idle_since = here.loop.time()
            here.idle.append((address, connection))
            if len(here.idle) > IDLE_MAX:
                here.idle.popleft()[1].close()
        return answer


class _Waiting(NamedTuple):
    """A submission that waits for a call."""

    run: dict[str, Any]
    key: str
    #: What of it stands in a call with others.
    text: str
    answer: asyncio.Future[Any]


class Submissions:
    """Submissions of one client: while a call is under way, those that come wait and share the next one.

    Each keeps its own key, so a repetition of the shared call repeats each of them.
    """

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport
        self._waiting: deque[_Waiting] = deque()
        self._is_busy = False

    async def submit(self, run: dict[str, Any], key: str) -> Any:
        """Submits one run, alone or with others."""
        if self._is_busy:
            answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            text = _calls.body_text({**run, "idempotencyKey": key})
            self._waiting.append(_Waiting(run, key, text, answer))
            return await answer
        self._is_busy = True
        try:
            return await self._alone(run, key)
        finally:
            self._next()

    async def _alone(self, run: dict[str, Any], key: str) -> Any:
        return await self._transport.call(_calls.post("/v1/runs", run, idempotency_key=key))

    def _next(self) -> None:
        if not self._waiting:
            self._is_busy = False
            return
        task = asyncio.ensure_future(self._together(self._batch()))
        task.add_done_callback(lambda _: self._next())

    def _batch(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        size = 0
        while self._waiting and len(batch) < SUBMISSIONS_MAX and size < SUBMISSION_BYTES_MAX:
            batch.append(self._waiting.popleft())
            size += len(batch[-1].text)
        return batch

    async def _together(self, batch: list[_Waiting]) -> None:
        try:
            if len(batch) == 1:
                results = [await self._alone(batch[0].run, batch[0].key)]
            else:
                runs = ",".join(each.text for each in batch)
                call = Call("POST", "/v1/runs", f'{{"runs":[{runs}]}}'.encode())
                results = (await self._transport.call(call))["results"]
        except Refused as error:
            if len(batch) > 1 and not error.retryable:
                return await self._one_by_one(batch)  # one of them spoils the call for all
            results = [error] * len(batch)
        except BaseException as error:
            results = [error] * len(batch)
        for each, result in zip(batch, results, strict=True):
            self._settle(each.answer, result)
        return None

    async def _one_by_one(self, batch: list[_Waiting]) -> None:
        for each in batch:
            try:
                result = await self._alone(each.run, each.key)
            except BaseException as error:
                result = error
            self._settle(each.answer, result)

    def _settle(self, answer: asyncio.Future[Any], result: Any) -> None:
        if answer.done():
            return
        if isinstance(result, BaseException):
            answer.set_exception(result)
        elif result.get("error"):
            answer.set_exception(_calls.run_refused(self._transport.address, result))
        else:
            answer.set_result(result)
