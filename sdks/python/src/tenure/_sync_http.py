"""Calls that block the calling thread, over kept connections. Safe to use from several threads, and after a fork.

A child process has its own connections: what it shared with its parent would give one of them the answers of the other.
"""

from __future__ import annotations

import http.client
import os
import select
import threading
import time
import weakref
from typing import Any

from . import _calls
from ._calls import Address, Addresses, Answer, Call, NoAnswer, Settings, Tries
from .errors import TenureError

#: A thread that waits for a run holds a connection of its own; more than this many are not kept.
IDLE_MAX = 16


class Transport:
    """Sends calls to the coordinator, and again where nothing was decided."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._addresses = Addresses(settings.addresses)
        self._tls = settings.tls()
        self._lock = threading.Lock()
        self._idle: list[tuple[Address, float, http.client.HTTPConnection]] = []
        _transports.add(self)

    def call(self, call: Call) -> Any:
        """The result of a call; raises a refusal."""
        tries = Tries(self._settings.retries, self._addresses)
        while True:
            address = self._addresses.current
            try:
                return self.call_once(call)
            except TenureError as error:
                pause = tries.pause_after(address, error)
            time.sleep(pause)

    def call_once(self, call: Call) -> Any:
        """One try."""
        address = self._addresses.current
        try:
            answer = self._send(address, call)
        except NoAnswer as silence:
            raise _calls.unreachable(address, silence) from silence
        return _calls.judge(address, answer)

    def submit(self, run: dict[str, Any], key: str) -> Any:
        """Submits one run."""
        return self.call(_calls.post("/v1/runs", run, idempotency_key=key))

    def ended(self, run_id: str, wait_ms: int | None) -> Any:
        """The run as soon as it has ended, or as it is after a while."""
        return self.call(_calls.ended(run_id, wait_ms))

    def close(self) -> None:
        """Closes the connections that are not in use."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, _, connection in idle:
            connection.close()

    def after_fork(self) -> None:
        """In the child: forgets the parent's connections, and a lock that a thread of the parent may have held."""
        self._lock = threading.Lock()
        self.close()  # this process's copies; the parent's stay open

    def _send(self, address: Address, call: Call) -> Answer:
        return self._exchange(self._take(address) or self._connect(address), address, call)

    def _exchange(self, connection: http.client.HTTPConnection, address: Address, call: Call) -> Answer:
        try:
            connection.timeout = call.timeout
            if connection.sock is not None:
                connection.sock.settimeout(call.timeout)
            connection.request(call.method, address.prefix + call.path, call.body, self._headers(call))
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise NoAnswer(str(error) or type(error).__name__) from error
        if response.will_close:
            connection.close()
        else:
            self._keep(address, connection)
        return Answer(response.status, body, _calls.seconds(response.headers.get("Retry-After")))

    def _headers(self, call: Call) -> dict[str, str]:
        headers = {
            "Authorization": f"Bearer {call.token or self._settings.api_key}",
            "User-Agent": _calls.USER_AGENT,
        }
        if call.idempotency_key is not None:
            headers["Idempotency-Key"] = call.idempotency_key
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        return headers

    def _connect(self, address: Address) -> http.client.HTTPConnection:
        timeout = _calls.CONNECT_SECONDS
        if address.is_tls:
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                address.host, address.port, timeout=timeout, context=self._tls
            )
        else:
            connection = http.client.HTTPConnection(address.host, address.port, timeout=timeout)
        try:
            connection.connect()
        except OSError as error:
            raise NoAnswer(str(error)) from error
        return connection

    def _take(self, address: Address) -> http.client.HTTPConnection | None:
        oldest = time.monotonic() - _calls.IDLE_SECONDS
        with self._lock:
            while self._idle:
                of, since, connection = self._idle.pop()
                if of == address and since >= oldest and not _is_closed(connection):
                    return connection
                connection.close()
        return None

    def _keep(self, address: Address, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < IDLE_MAX:
                self._idle.append((address, time.monotonic(), connection))
                return
        connection.close()


_transports: weakref.WeakSet[Transport] = weakref.WeakSet()


def _after_fork() -> None:
    for transport in list(_transports):
        transport.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _is_closed(connection: http.client.HTTPConnection) -> bool:
    """Whether the server has closed an unused connection: then there is something to read from it."""
    return connection.sock is None or bool(select.select([connection.sock], [], [], 0)[0])
