"""Runs the commands that check answers, as the owner of the machine configured them.

Nothing of a message or of the server reaches the command: the server sends a name. The result goes to the server with
the credential of the runner, which agents do not get."""

import asyncio
import contextlib
import hashlib
import logging
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Mapping
from pathlib import Path

import msgspec

from molecule_core.agent.config import ConfigurationError
from molecule_core.agent.runner.agent_process import LogBuffer
from molecule_core.agent.runner.configuration import CheckCommand, RunnerConfiguration
from molecule_core.agent.runner.policy import RefusedError
from molecule_core.common.clock import Clock
from molecule_core.wire.schemas.runners import CheckOffer, CheckOutcome, ConfirmRunnerRequestBody

_log = logging.getLogger("molecule.runner")
BASELINE_FILE = "checks.json"
_CHUNK = 64 << 10
_SHOWN_PATHS = 5
_MAX_FILES = 10_000


class CheckRuns:
    """The commands that check answers on one machine.

    A baseline is the content of the files that a command needs and no agent may change (`unchanged`), as it was when
    the agent was added. It is kept over restarts, and taken again only if the configuration of the command changes."""

    def __init__(
        self,
        state: Path,
        configuration: RunnerConfiguration,
        environment: Mapping[str, str],
        clock: Clock,
        max_bytes: int,
    ) -> None:
        self._file = state / BASELINE_FILE
        self._configuration = configuration
        self._environment = dict(environment)
        self._clock = clock
        self._max_bytes = max_bytes
        self._folders: dict[str, str] = dict(configuration.check_folders)
        self._baselines = self._load()
        for folder in configuration.check_folders.values():
            self.take_baselines(folder)

    def add_agent(self, workspace_id: str, folder: str) -> None:
        """Add an agent of the runner before it starts, and take the baselines of its folder."""
        self._folders[workspace_id] = folder
        self.take_baselines(folder)

    def remove_agent(self, workspace_id: str) -> None:
        """Remove an agent."""
        self._folders.pop(workspace_id, None)
        if (configured := self._configuration.check_folders.get(workspace_id)) is not None:
            self._folders[workspace_id] = configured

    def offers(self) -> tuple[CheckOffer, ...]:
        """Return which commands are offered for which workspaces."""
        names = tuple(sorted(self._configuration.checks))
        return tuple(CheckOffer(each, names) for each in sorted(self._folders)) if names else ()

    async def run(self, workspace_id: str, name: str) -> ConfirmRunnerRequestBody:
        """Run a command in the folder of an agent; return its outcome."""
        try:
            check, folder = self._find(workspace_id, name)
            if changed := await asyncio.to_thread(self._changed_files, name, check, folder):
                more = f" and {len(changed) - _SHOWN_PATHS} more" if len(changed) > _SHOWN_PATHS else ""
                raise RefusedError(
                    f"files that must not change have changed: {', '.join(changed[:_SHOWN_PATHS])}{more}"
                )
            return ConfirmRunnerRequestBody("done", check=await self._run_command(check, folder))
        except (RefusedError, OSError) as error:
            return ConfirmRunnerRequestBody("failed", str(error))

    def _find(self, workspace_id: str, name: str) -> tuple[CheckCommand, Path]:
        check, folder = self._configuration.checks.get(name), self._folders.get(workspace_id)
        if check is None:
            raise RefusedError(f"runner.toml has no check {name[:64]!r}")
        if folder is None:
            raise RefusedError("the runner has no folder for this workspace")
        path = Path(folder).expanduser()
        if not path.is_dir():
            raise RefusedError(f"the folder {folder[:200]!r} does not exist")
        return check, path

    async def _run_command(self, check: CheckCommand, folder: Path) -> CheckOutcome:
        started, kept, digest, size = self._clock.monotonic(), LogBuffer(self._max_bytes), hashlib.sha256(), 0
        process = await asyncio.create_subprocess_exec(
            *check.argv,
            cwd=folder,
            env=self._environment,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            start_new_session=True,
        )

        async def read() -> None:
            nonlocal size
            while process.stdout is not None and (chunk := await process.stdout.read(_CHUNK)):
                kept.append(chunk)
                digest.update(chunk)
                size += len(chunk)
            await process.wait()

        try:
            is_late = not await self._clock.wait(read(), check.timeout)
        finally:
            await _end(process)
        output = kept.text
        if is_late:
            output += f"\nended after {check.timeout} seconds"
        return CheckOutcome(
            exit_code=process.returncode if process.returncode is not None and not is_late else -signal.SIGKILL,
            seconds=round(self._clock.monotonic() - started, 3),
            output=output[-self._max_bytes :],
            sha256=digest.hexdigest(),
            size=size,
        )

    # -- baselines -----------------------------------------------------------------------------------------------------

    def take_baselines(self, folder: str) -> None:
        """Take the baselines of a folder that are not taken yet."""
        path, is_changed = Path(folder).expanduser(), False
        for name, check in self._configuration.checks.items():
            key = _baseline_key(name, check, path)
            if check.unchanged and key not in self._baselines and path.is_dir():
                try:
                    self._baselines[key] = _hash_files(path, check.unchanged)
                except OSError as error:  # the check fails: nothing is recorded
                    _log.warning("the files of the check %s cannot be recorded: %s", name, error)
                    continue
                is_changed = True
        if is_changed:
            written = self._file.with_suffix(".new")
            written.write_bytes(msgspec.json.encode(self._baselines))
            written.chmod(0o600)
            written.replace(self._file)

    def _changed_files(self, name: str, check: CheckCommand, folder: Path) -> list[str]:
        """Return the files of a folder that differ from the baseline."""
        if not check.unchanged:
            return []
        before = self._baselines.get(_baseline_key(name, check, folder))
        if before is None:
            raise RefusedError(f"the files of {name!r} that must not change were never recorded. Restart the runner")
        now = _hash_files(folder, check.unchanged)
        return sorted(path for path in {*before, *now} if before.get(path) != now.get(path))

    def _load(self) -> dict[str, dict[str, str]]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, dict[str, str]])
        except FileNotFoundError:
            return {}
        except msgspec.MsgspecError as error:  # never taken again by itself: it may have been damaged on purpose
            raise ConfigurationError(
                f"{self._file} is damaged: {error}. Check the files that must not change, then delete it"
            ) from None


def _baseline_key(name: str, check: CheckCommand, folder: Path) -> str:
    return f"{folder.resolve()} {name} {hashlib.sha256(msgspec.json.encode(check)).hexdigest()}"


def _hash_files(folder: Path, patterns: tuple[str, ...]) -> dict[str, str]:
    """Return the hash of each file that matches one of the patterns, by its path in the folder."""
    found: dict[str, str] = {}
    for pattern in patterns:
        for path in folder.glob(pattern):
            name = path.relative_to(folder).as_posix()
            if path.is_symlink():
                found[name] = f"link to {path.readlink()}"
            elif path.is_file():
                found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
            if len(found) > _MAX_FILES:
                raise OSError(f"more than {_MAX_FILES} files match {pattern!r}. Use a narrower pattern")
    return found


async def _end(process: Process) -> None:
    """End what is left of a command and its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
