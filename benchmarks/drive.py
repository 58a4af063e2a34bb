"""Puts a load on a server and tells what that cost it."""

import subprocess
import sys

import msgspec
from msgspec import Struct

from benchmarks.figures import Failed
from benchmarks.load import DEADLINE_SECONDS, Outcome, Plan
from benchmarks.machine import ROOT
from benchmarks.servers import Server, clean_environment


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
    """Runs a plan; the server's CPU is read when all connections stand, and again when all is done."""
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.load"],
        cwd=ROOT,
        env=clean_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(msgspec.json.encode(plan) + b"\n")
        client.stdin.flush()
        if client.stdout.readline() != b"ready\n":
            raise LoadFailed("the load client did not get ready")
        before = server.cpu()
        try:
            answer, _ = client.communicate(b"go\n", timeout=DEADLINE_SECONDS * 2)
        except subprocess.TimeoutExpired:
            client.kill()
            raise LoadFailed("the load client did not come to an end") from None
        after = server.cpu()
    if client.returncode:
        raise LoadFailed("the load client met an error; it stands above")
    return Cost(msgspec.json.decode(answer, type=Outcome), after - before)
