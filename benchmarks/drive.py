"""Puts a load on a server and tells what that cost it."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import msgspec
from msgspec import Struct

from benchmarks.figures import Failed
from benchmarks.load import DEADLINE_SECONDS, Outcome, Plan
from benchmarks.machine import ROOT
from benchmarks.nuisance import Mischief, Nuisance
from benchmarks.servers import Server, clean_environment

T = TypeVar("T", bound=Struct)


class LoadFailed(Failed):
    """The load met an error, so nothing was measured."""


class Cost(Struct, frozen=True):
    """What a load cost the server, and how it went."""

    outcome: Outcome
    cpu_seconds: float

    @property
    def each_us(self) -> float:
        """CPU microseconds of the server for each message or request."""
        return self.cpu_seconds / self.outcome.replies * 1e6


def drive(server: Server, plan: Plan) -> Cost:
    """Runs a plan."""
    return Cost(*run_client(server, "benchmarks.load", plan, Outcome))


def run_client(
    server: Server, module: str, plan: Struct, shape: type[T], *, python: str = sys.executable
) -> tuple[T, float]:
    """Lets a client work off its plan: the outcome, and the CPU seconds of the server from when all connections stood
    until all was done."""
    with _client(module, python) as client:
        overdue = threading.Timer(DEADLINE_SECONDS * 2, client.kill)
        overdue.start()
        try:
            _tell(client, msgspec.json.encode(plan))
            if _answer(client) != b"ready\n":
                raise LoadFailed("the load client did not get ready")
            before = server.cpu()
            _tell(client, b"go")
            answer = _answer(client)
            after = server.cpu()
        finally:
            overdue.cancel()
    if not answer or client.returncode:
        raise LoadFailed("the load client met an error, or came to no end; it may stand above")
    return msgspec.json.decode(answer, type=shape), after - before


@contextmanager
def misbehaving(plan: Nuisance) -> Iterator[list[Mischief]]:
    """While the block runs, others misbehave; what they did stands in the list afterwards."""
    did: list[Mischief] = []
    with _client("benchmarks.nuisance", sys.executable) as client:
        overdue = threading.Timer(DEADLINE_SECONDS * 2, client.kill)
        overdue.start()
        try:
            _tell(client, msgspec.json.encode(plan))
            if _answer(client) != b"ready\n":
                raise LoadFailed("those who shall misbehave did not get ready")
            yield did
            _tell(client, b"stop")
            answer = _answer(client)
        finally:
            overdue.cancel()
    if not answer:
        raise LoadFailed("those who misbehave met an error; it may stand above")
    did.append(msgspec.json.decode(answer, type=Mischief))


def _client(module: str, python: str) -> "subprocess.Popen[bytes]":
    command, pipe = [python, "-m", module], subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=clean_environment(), stdin=pipe, stdout=pipe)


def _tell(client: "subprocess.Popen[bytes]", line: bytes) -> None:
    assert client.stdin is not None
    client.stdin.write(line + b"\n")
    client.stdin.flush()


def _answer(client: "subprocess.Popen[bytes]") -> bytes:
    assert client.stdout is not None
    return client.stdout.readline()
