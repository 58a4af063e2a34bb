"""`molecule` in a process of its own without the start of an interpreter: a server that has imported it forks.

A start costs a fifth of a second of CPU, most of it for imports, and a run makes hundreds. With `--exhaustive`
each is a start.
"""

import asyncio
import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
_MOST_BYTES = 1 << 17
_HANDLES = 4


class Forked:
    """A forked process: what tests use of `asyncio.subprocess.Process`."""

    def __init__(self, pid: int, ended: asyncio.Task[int], *streams: asyncio.StreamReader) -> None:
        self.pid = pid
        self.stdout, self.stderr = streams
        self._ended = ended

    @property
    def returncode(self) -> int | None:
        """Return its exit code, the negative number of the signal that ended it, or nothing while it runs."""
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        """Wait for its end; return its exit code."""
        return await asyncio.shield(self._ended)

    def kill(self) -> None:
        """Send SIGKILL."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)


async def fork(*arguments: str, env: Mapping[str, str], cwd: Path, stdin: Path) -> Forked:
    """Run `molecule` with these arguments; `stdin` is the file that it reads from standard input."""
    pipes = [os.pipe() for _ in range(_HANDLES - 1)]
    handles = [os.open(stdin, os.O_RDONLY), *(write for _, write in pipes)]
    request = json.dumps({"arguments": arguments, "env": dict(env), "cwd": str(cwd)}).encode()
    assert len(request) <= _MOST_BYTES
    socket.send_fds(_server(), [request], handles)
    for each in handles:
        os.close(each)
    out, err, status = [await _reader(read) for read, _ in pipes]
    pid = int(await status.readline())
    return Forked(pid, asyncio.create_task(_exit_code(status)), out, err)


async def _exit_code(status: asyncio.StreamReader) -> int:
    return int(await status.read())


async def _reader(handle: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    pipe = os.fdopen(handle, "rb", buffering=0)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


@functools.cache
def _server() -> socket.socket:
    """Start the server; it ends when this process does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        handle = theirs.fileno()
        process = subprocess.Popen([sys.executable, "-m", __name__, str(handle)], cwd=_ROOT, pass_fds=[handle])

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _serve(requests: socket.socket) -> Callable[[], Any]:
    """Fork for each request, and report how each child ended. In a child, return what it is to do."""
    statuses: dict[int, int] = {}
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([requests.fileno(), wake], [], [])
        if wake in ready:
            os.read(wake, _MOST_BYTES)
            _report_ends(statuses)
            continue
        request, handles, _, _ = socket.recv_fds(requests, _MOST_BYTES, _HANDLES)
        if not request:
            return lambda: None
        *streams, status = handles
        told = json.loads(request)
        if told["arguments"][:2] == ["agent", "run"]:
            _import_model_libraries()
        if not (pid := os.fork()):
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for each in (*statuses.values(), status, wake, woken):
                os.close(each)
            requests.close()
            return functools.partial(_become, told, streams)
        for each in streams:
            os.close(each)
        os.write(status, f"{pid}\n".encode())
        statuses[pid] = status


def _report_ends(statuses: dict[int, int]) -> None:
    for pid in list(statuses):
        ended, how = os.waitpid(pid, os.WNOHANG)
        if ended:
            with contextlib.suppress(BrokenPipeError):
                os.write(statuses[pid], str(os.waitstatus_to_exitcode(how)).encode())
            os.close(statuses.pop(pid))


def _become(told: dict[str, Any], streams: list[int]) -> Any:
    from molecule_core.entry import main

    for number, each in enumerate(streams):
        os.dup2(each, number)
        os.close(each)
    os.chdir(told["cwd"])
    os.environ.clear()
    os.environ.update(told["env"])
    command = Path(sys.executable).parent / "molecule"
    sys.path[0] = str(command.parent)
    sys.argv = [str(command), *told["arguments"]]
    return main()


def _import_all() -> None:
    import molecule_core.agent.main
    import molecule_core.cli
    import molecule_core.client.api
    import molecule_core.server.composition
    import molecule_core.server.listener

    for each in pkgutil.iter_modules(molecule_core.cli.__path__, "molecule_core.cli."):
        __import__(each.name)


def _import_model_libraries() -> None:
    """Import what takes seconds of CPU, once it is needed."""
    for each in ("any_llm", "anthropic", "openai"):
        importlib.import_module(each)
    gc.freeze()


if __name__ == "__main__":
    _import_all()
    gc.freeze()
    sys.exit(_serve(socket.socket(fileno=int(sys.argv[1])))())
