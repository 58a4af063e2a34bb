"""Runs the process of `molecule runner`, from its state folder to its exit code. Called by the command line."""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from molecule_core.agent.async_utils import on_stdin_closed, sleep
from molecule_core.agent.bridges.process_runner import ProcessLock
from molecule_core.agent.config import ConfigurationError
from molecule_core.agent.runner.machine_runner import MachineRunner, RunnerOptions, RunnerRejectedError
from molecule_core.common.clock import Clock, SystemClock
from molecule_core.common.ids import SystemRandomness

_log = logging.getLogger("molecule.runner")
EXIT_STOPPED, EXIT_REJECTED = 0, 3
RUNNER_TOKEN_FILE = "token"
_LOCK_FILE = "runner.lock"
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# A runner before this one ends its agents first, each within 10 s by default.
_LOCK_SECONDS, _POLL_SECONDS = 20.0, 0.1


def prepare_runner_folder(state: Path) -> Path:
    """Create the state folder of a runner, for its owner only. Raises ConfigurationError."""
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"the state folder {state} cannot be created: {error.strerror}") from None
    return state


def read_runner_token(state: Path) -> str:
    """Return the token that was saved in a state folder; empty if there is none."""
    try:
        return (state / RUNNER_TOKEN_FILE).read_text(encoding="utf-8-sig").strip()
    except OSError:
        return ""


def save_runner_token(state: Path, token: str) -> None:
    """Save the token of a runner, for its owner only. Raises OSError."""
    handle = os.open(state / RUNNER_TOKEN_FILE, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(token + "\n")


async def run_runner(options: RunnerOptions, *, until_eof: bool) -> int:
    """Run until a signal arrives; return the exit code. Raises ConfigurationError."""
    clock = SystemClock()
    end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, end.set)
    if until_eof:
        await on_stdin_closed(end.set)
    with await _only_runner(options.state, clock):
        runner = asyncio.create_task(MachineRunner(options, clock=clock, randomness=SystemRandomness()).run())
        ended = asyncio.create_task(end.wait())
        await asyncio.wait((runner, ended), return_when=asyncio.FIRST_COMPLETED)
        runner.cancel()
        ended.cancel()
        try:
            await runner
        except asyncio.CancelledError:
            return EXIT_STOPPED
        except RunnerRejectedError:
            _log.error("the server rejects the token of this runner: it was removed. Its agents have ended")
            return EXIT_REJECTED
    return EXIT_STOPPED


async def _only_runner(state: Path, clock: Clock) -> contextlib.AbstractContextManager[None]:
    """Return the lock of a state folder, once an earlier runner has ended. Raises ConfigurationError."""
    lock = ProcessLock(state / _LOCK_FILE)
    deadline = clock.monotonic() + _LOCK_SECONDS
    while not lock.try_acquire():
        if clock.monotonic() >= deadline:
            raise ConfigurationError(f"another runner uses {state}. End it, or set --state to another folder")
        await sleep(clock, _POLL_SECONDS)
    return _released(lock)


@contextlib.contextmanager
def _released(lock: ProcessLock) -> Iterator[None]:
    try:
        yield
    finally:
        lock.release()
