"""A server with a certificate of a private authority: client, asynchronous client and worker, by variable and argument."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import tasks

from tenure import AsyncClient, Client, Setup, Unreachable

PATIENCE = 60.0
QUEUE = "secure"
KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


@dataclass
class Secured:
    url: str
    api_key: str
    ca_file: str


def openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def certified(folder: Path) -> None:
    """An authority, and a certificate that it signed for this machine."""
    openssl(folder, "req", "-x509", *KEY, "-days", "30", "-subj", "/CN=A test", "-keyout", "ca.key", "-out", "ca.pem")
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    request = [*KEY, "-subj", "/CN=localhost", "-addext", names, "-keyout", "server.key", "-out", "server.csr"]
    openssl(folder, "req", *request)
    signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30", "-copy_extensions", "copy"]
    openssl(folder, "x509", "-req", "-in", "server.csr", *signed, "-out", "server.pem")
    (folder / "server.key").chmod(0o600)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("tls")
    certified(folder)
    binary = os.environ.get("TENURE_BINARY")
    assert binary, "set TENURE_BINARY to the program `tenure`"
    certificate = ["--tls-cert", "server.pem", "--tls-key", "server.key"]
    command = [binary, "serve", "--listen", "127.0.0.1:0", *certificate, "--store", "sqlite:tenure.db"]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env={**os.environ, "HOME": str(folder)})
    try:
        yield Secured(*told(folder / "server.log", server), str(folder / "ca.pem"))
    finally:
        server.kill()
        server.wait()


def told(log: Path, server: subprocess.Popen[bytes]) -> tuple[str, str]:
    """The address and the key that a new server prints."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and server.poll() is None:
        found = re.search(r"serves at (https\S+).*^key +(\S+)", log.read_text(), re.DOTALL | re.MULTILINE)
        if found:
            return found[1], found[2]
        time.sleep(0.02)
    raise AssertionError(log.read_text())


def test_client_and_worker_trust_the_authority_that_is_named(secured: Secured) -> None:
    settings = {
        "TENURE_URL": secured.url,
        "TENURE_API_KEY": secured.api_key,
        "TENURE_CA_FILE": secured.ca_file,
        "TEST_QUEUE": QUEUE,
    }
    worker = subprocess.Popen([sys.executable, str(Path(tasks.__file__))], env={**os.environ, **settings})
    greet = tasks.greet.options(queue=QUEUE)

    async def greeted() -> str:
        async with AsyncClient(secured.url, secured.api_key, ca_file=secured.ca_file) as client:
            return await (await client.submit(greet, "Ada")).result(PATIENCE)

    try:
        with Client(secured.url, secured.api_key, ca_file=secured.ca_file) as client:
            assert client.submit(greet, "Bob").result(PATIENCE) == "Hello, Bob!"
        assert asyncio.run(greeted()) == "Hello, Ada!"
    finally:
        worker.terminate()
        assert worker.wait(PATIENCE) == 0


def test_an_authority_that_is_not_trusted_is_told(secured: Secured) -> None:
    with Client(secured.url, secured.api_key, retries=0) as client, pytest.raises(Unreachable, match="certificate"):
        client.version()

    async def asked() -> None:
        async with AsyncClient(secured.url, secured.api_key, retries=0) as client:
            await client.version()

    with pytest.raises(Unreachable, match="certificate"):
        asyncio.run(asked())


def test_a_file_without_certificates_is_told(secured: Secured, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing\n")
    for file in (empty, tmp_path / "absent.pem"):
        with pytest.raises(Setup, match="cannot read the certificates"):
            Client(secured.url, secured.api_key, ca_file=str(file)).version()
