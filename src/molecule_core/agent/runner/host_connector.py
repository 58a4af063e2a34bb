"""Connects sessions that a person has started to workspaces: runs `molecule connect` in their folder."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from molecule_core.agent.runner.kinds import AgentKind
from molecule_core.agent.runner.policy import RefusedError
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.common.clock import Clock

_SECONDS = 60.0
_MAX_REASON = 300


class HostConnector:
    """Writes and removes the configuration of hosts. `state`: folder of the tokens and of the list of edits."""

    def __init__(
        self, command: Sequence[str], url: str, state: Path, environment: Mapping[str, str], clock: Clock
    ) -> None:
        self._command = command
        self._url = url
        self._state = state
        self._environment = environment
        self._clock = clock

    async def connect(self, kind: AgentKind, folder: str, workspace_id: str, token: str) -> None:
        """Write the configuration of a host in a folder. Raises RefusedError."""
        choice = ("--workspace", workspace_id, "--own-token", "--wait", "0", "--host-seconds", "0")
        await self._run((kind.host, "--apply", *choice), folder, token)

    async def disconnect(self, kind: AgentKind, folder: str) -> None:
        """Undo the last configuration of a host in a folder. Raises RefusedError."""
        await self._run((kind.host, "--undo"), folder, "")

    async def _run(self, arguments: Sequence[str], folder: str, given: str) -> None:
        """Run `molecule connect`; a token is read from its standard input. Raises RefusedError."""
        pipe = asyncio.subprocess.PIPE
        command = (*self._command, "connect", *arguments, "--server", self._url, "--state-dir", str(self._state))
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=folder, env=dict(self._environment)
            )
        except OSError as error:
            raise RefusedError(f"`molecule connect` cannot be started: {error.strerror}") from None
        ending = asyncio.ensure_future(process.communicate(f"{given}\n".encode()))
        if not await self._clock.wait(asyncio.shield(ending), _SECONDS):
            process.kill()
            await ending
            raise RefusedError(f"`molecule connect` has not ended within {_SECONDS:g} seconds")
        _, printed = ending.result()
        if process.returncode:
            lines = printed.decode(errors="replace").strip().splitlines() or [""]
            raise RefusedError(f"`molecule connect` failed: {sanitize_line(lines[-1], _MAX_REASON)}")
