"""The servers that are measured, each a process of its own: `molecule serve` as shipped, and uvicorn with nothing."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from benchmarks.figures import Failed
from benchmarks.machine import ROOT, WORK, cpu_of, memory_of

START_SECONDS = 60.0  # starting a process on a busy machine
STOP_SECONDS = 30.0
_PEERS_PYTHON = WORK / "peers" / "bin" / "python"
_LOOK_EVERY_SECONDS = 0.005
_HEALTH = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"


class DidNotStart(Failed):
    """A server ended, or said nothing, before its first healthy answer; the text is the end of its log."""


class Server(Struct, frozen=True):
    """A server that answers. `start_*` is what it took to its first healthy answer."""

    pid: int
    port: int
    start_cpu: float
    start_memory: float
    start_seconds: float

    def cpu(self) -> float:
        """CPU seconds used so far."""
        return cpu_of(self.pid)


class Place(Struct, frozen=True):
    """A state folder of Molecule, made for one run."""

    folder: Path

    @property
    def database(self) -> Path:
        """The store."""
        return self.folder / "molecule.db"

    def admin_token(self) -> str:
        """The token that the first start wrote."""
        return (self.folder / "admin-token").read_text(encoding="ascii").strip()


@contextmanager
def new_place() -> Iterator[Place]:
    """An empty state folder on the disk of the checkout, removed afterwards."""
    WORK.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="state-", dir=WORK))
    try:
        yield Place(folder)
    finally:
        shutil.rmtree(folder)


@contextmanager
def molecule(
    place: Place, *, is_lifted: bool = True, flushes: bool = True, source: Path | None = None, **settings: str
) -> Iterator[Server]:
    """`molecule serve` with its own defaults and these settings; the limits of rates and chains are lifted, unless it
    is them that are looked at. Unless it `flushes`, its store never waits for the disk (`benchmarks.unflushed`).
    `source`: the folder of the code that it runs, if that is another checkout's."""
    port = free_port()
    program = [str(Path(sys.prefix, "bin", "molecule"))]
    if not flushes:
        program = [sys.executable, "-m", "benchmarks.unflushed"]
    if source is not None:
        program = [sys.executable, "-c", "from molecule_core.entry import main; main()"]
    command = [*program, "serve", "--port", str(port)]
    more = {f"MOLECULE_{name.upper()}": value for name, value in settings.items()}
    environment = {**(_lifted() if is_lifted else {}), **more}
    if source is not None:
        environment["PYTHONPATH"] = str(source)
    command += ["--state-dir", str(place.folder)]
    with _serving(command, port, place.folder, cwd=None if flushes else ROOT, more=environment) as server:
        yield server


@contextmanager
def bare_uvicorn(place: Place) -> Iterator[Server]:
    """uvicorn with an application that does nothing, under the settings that Molecule gives it."""
    with _uvicorn(place, "benchmarks.noop:app", "--ws", "none") as server:
        yield server


@contextmanager
def queue_per_socket(place: Place, *, frugal: bool = False) -> Iterator[Server]:
    """Fan-out as it is commonly written, on uvicorn under the same settings; no compression, as with Molecule."""
    app = f"benchmarks.peer_queues:{'frugal' if frugal else 'app'}"
    with _uvicorn(place, app, "--ws-per-message-deflate", "false") as server:
        yield server


def has_peers() -> bool:
    """Whether the environment stands that holds the peers which are packages."""
    return _PEERS_PYTHON.exists()


def peers_python() -> str:
    """Its Python. Raises Failed."""
    if not has_peers():
        raise Failed("what this is measured against is not installed: needs scripts/setup --bench")
    return str(_PEERS_PYTHON)


@contextmanager
def a2a_agent(place: Place, database: str = "") -> Iterator[Server]:
    """An agent of a2a-sdk, on uvicorn under the same settings, with its tasks in a database or in memory."""
    app, more = "benchmarks.peer_a2a:app", {"A2A_STORE": database}
    with _uvicorn(place, app, "--factory", "--lifespan", "on", python=peers_python(), environment=more) as server:
        yield server


@contextmanager
def nats_server(place: Place, *, flushes: bool) -> Iterator[Server]:
    """NATS with JetStream on files. If it `flushes`, each message waits for the disk; as shipped, every two minutes."""
    port, settings = free_port(), place.folder / "nats.conf"
    interval = "sync_interval: always" if flushes else ""
    settings.write_text(f'jetstream {{\nstore_dir: "{place.folder}"\n{interval}\n}}\n', encoding="utf-8")
    command = [str(Path(sys.prefix, "bin", "nats-server")), "--addr", "127.0.0.1", "--port", str(port)]
    with _serving([*command, "--config", str(settings)], port, place.folder, answers=_greets) as server:
        yield server


@contextmanager
def _uvicorn(
    place: Place, app: str, *more: str, python: str = sys.executable, environment: dict[str, str] | None = None
) -> Iterator[Server]:
    port = free_port()
    settings = ["--loop", "uvloop", "--http", "httptools", "--lifespan", "off", "--no-access-log", *more]
    settings += ["--no-server-header", "--no-proxy-headers", "--limit-concurrency", "20000", "--log-level", "warning"]
    command = [python, "-m", "uvicorn", app, "--app-dir", str(ROOT), "--port", str(port)]
    with _serving([*command, *settings], port, place.folder, more=environment) as server:
        yield server


@contextmanager
def picows_fan_out(place: Place) -> Iterator[tuple[Server, int]]:
    """The ceiling of fan-out, and the port of its WebSockets. Only where the peers are installed."""
    port, sockets_port = free_port(), free_port()
    command = [peers_python(), "-m", "benchmarks.peer_picows", str(port), str(sockets_port)]
    with _serving(command, port, place.folder, cwd=ROOT) as server:
        yield server, sockets_port


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def clean_environment() -> dict[str, str]:
    """The environment without what would change Molecule's settings or Python's ways."""
    misleading = ("MOLECULE_", "ADMIN_TOKEN", "PYTHON", "UVICORN_", "WEB_CONCURRENCY")
    return {name: value for name, value in os.environ.items() if not name.startswith(misleading)}


def _lifted() -> dict[str, str]:
    """A crowd that sends as fast as it can is what the limits of rates and chains are there to stop."""
    rates = ("requests", "sends", "org_sends", "anonymous")
    names = [*(f"{rate}_per_minute" for rate in rates), "chain_hops", "chain_messages", "live_channels"]
    names += ["credential_unread_bytes"]
    return {f"MOLECULE_LIMIT_{name.upper()}": str(10**9) for name in names}


@contextmanager
def _serving(
    command: list[str],
    port: int,
    folder: Path,
    *,
    cwd: Path | None = None,
    more: dict[str, str] | None = None,
    answers: "Callable[[int], bool] | None" = None,
) -> Iterator[Server]:
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd=cwd or folder,
            env={**clean_environment(), **(more or {})},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield _first_answer(process, port, folder / "log", answers or _is_healthy)
    finally:
        _stop(process)


def _first_answer(process: "subprocess.Popen[bytes]", port: int, log: Path, answers: Callable[[int], bool]) -> Server:
    start = time.monotonic()
    while time.monotonic() - start < START_SECONDS and process.poll() is None:
        if answers(port):
            cpu, memory = cpu_of(process.pid), memory_of(process.pid)
            return Server(process.pid, port, cpu, memory, time.monotonic() - start)
        time.sleep(_LOOK_EVERY_SECONDS)
    raise DidNotStart(log.read_text(encoding="utf-8", errors="replace")[-2000:])


def _is_healthy(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(_HEALTH)
            return connection.recv(4096).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def _greets(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            return connection.recv(4096).startswith(b"INFO")
    except OSError:
        return False


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_SECONDS)
