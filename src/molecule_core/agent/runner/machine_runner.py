"""Connects a runner to its server: reports, claims requests, carries them out and confirms them."""

import asyncio
import logging
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from molecule_core.agent.async_utils import sleep
from molecule_core.agent.backoff import BackOff
from molecule_core.agent.bridges.program_input import public_environment
from molecule_core.agent.runner.agent_files import AgentFiles, RunnerAgentRecord
from molecule_core.agent.runner.agent_process import AgentParts, AttachedAgent, ManagedAgent, SupervisedBridge
from molecule_core.agent.runner.check_runs import CheckRuns
from molecule_core.agent.runner.configuration import RunnerConfiguration
from molecule_core.agent.runner.host_connector import HostConnector
from molecule_core.agent.runner.installed_agents import FoundAgent, find_installed_agents
from molecule_core.agent.runner.kinds import KINDS, bridge_arguments
from molecule_core.agent.runner.open_sessions import find_open_sessions
from molecule_core.agent.runner.policy import AgentStart, RefusedError, check_attach, check_start
from molecule_core.agent.runner.settings import RunnerSettings
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common.clock import Clock
from molecule_core.common.ids import Randomness
from molecule_core.common.logs import register_secret
from molecule_core.common.version import VERSION
from molecule_core.wire.schemas.runners import (
    ATTACHED_MODE,
    ClaimedRunnerRequest,
    ConfirmRunnerRequestBody,
    OpenSession,
    RunnerReport,
)

_log = logging.getLogger("molecule.runner")
_UNAUTHORIZED = 401


class RunnerRejectedError(Exception):
    """The server rejects the token of the runner: it was removed."""


class RunnerOptions(Struct, frozen=True, kw_only=True):
    """What a runner runs with. `environment`: inherited by agents, without credentials of Molecule.

    `command`: starts the `molecule` of this installation."""

    url: str
    token: str
    state: Path
    configuration: RunnerConfiguration
    settings: RunnerSettings
    environment: Mapping[str, str]
    command: Sequence[str] = (sys.executable, "-m", "molecule_core")


class MachineRunner:
    """The runner of a machine."""

    def __init__(self, options: RunnerOptions, *, clock: Clock, randomness: Randomness) -> None:
        self._options = options
        self._clock = clock
        self._randomness = randomness
        self._files = AgentFiles(options.state)
        self._agents: dict[str, ManagedAgent] = {}
        self._installed: dict[str, FoundAgent] = {}
        self._sessions: tuple[OpenSession, ...] = ()
        environment = public_environment(options.environment)
        self._connector = HostConnector(options.command, options.url, options.state, environment, clock)
        self._checks = CheckRuns(options.state, options.configuration, environment, clock, options.settings.log_bytes)
        self._check_tasks: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._parts = AgentParts(options.state, clock, randomness, options.settings, self._changed.set)

    async def run(self) -> None:
        """Work until cancelled; then end all agents. Raises RunnerRejectedError."""
        try:
            await self._scan()
            for record in self._files.load():
                self._restore(record)
            async with ApiClient(self._options.url, self._options.token) as api, asyncio.TaskGroup() as tasks:
                tasks.create_task(self._report_changes(api))
                tasks.create_task(self._carry_out_requests(api))
                tasks.create_task(self._scan_periodically())
        except* RunnerRejectedError:
            raise RunnerRejectedError from None
        finally:
            for task in self._check_tasks.values():  # the next start runs them again
                task.cancel()
            await asyncio.gather(*self._check_tasks.values(), return_exceptions=True)
            await asyncio.gather(*(each.end() for each in self._agents.values()))

    # -- reports -------------------------------------------------------------------------------------------------------

    async def _scan_periodically(self) -> None:
        while True:
            await sleep(self._clock, self._options.settings.scan_seconds)
            await self._scan()

    async def _scan(self) -> None:
        """Find the installed agents and the open sessions again."""
        options = self._options
        found = await find_installed_agents(options.configuration, options.environment, self._clock)
        sessions = find_open_sessions(options.configuration)
        if (found, sessions) != (self._installed, self._sessions):
            self._installed, self._sessions = found, sessions
            self._changed.set()

    async def _report_changes(self, api: ApiClient) -> None:
        """Report at the start and after each change."""
        while True:
            self._changed.clear()
            await self._send(lambda: api.post("/runner/report", msgspec.to_builtins(self.report())))
            await self._changed.wait()

    def report(self) -> RunnerReport:
        """Return what the runner is and runs."""
        return RunnerReport(
            machine=socket.gethostname(),
            version=VERSION,
            installed=tuple(each.report for each in self._installed.values()),
            folders=self._options.configuration.folders,
            agents=tuple(each.report() for each in self._agents.values()),
            sessions=self._sessions,
            checks=self._checks.offers(),
        )

    async def _send(self, send: Callable[[], Awaitable[Any]]) -> Any:
        """Send a request until the server answers it. Raises RunnerRejectedError, and ApiError if it is rejected."""
        settings = self._options.settings
        back_off = BackOff(settings.retry_seconds, settings.retry_most_seconds, self._randomness)
        while True:
            try:
                return await send()
            except NoAnswerError as error:
                _log.debug("the server does not answer: %s", error)
            except ApiError as error:
                if error.status == _UNAUTHORIZED:
                    raise RunnerRejectedError from None
                if not error.is_transient:
                    raise
            await sleep(self._clock, back_off.next_delay())

    # -- requests ------------------------------------------------------------------------------------------------------

    async def _carry_out_requests(self, api: ApiClient) -> None:
        """Claim requests, carry them out in order, and confirm each."""
        wait = {"wait": self._options.settings.hold_seconds}
        while True:
            answer = await self._send(lambda: api.post("/runner/claim", wait))
            for request in msgspec.convert(answer["requests"], list[ClaimedRunnerRequest]):
                if request.action == "check":
                    self._start_check(api, request)
                else:
                    await self._confirm(api, request, await self._carry_out(request))

    async def _confirm(self, api: ApiClient, request: ClaimedRunnerRequest, outcome: ConfirmRunnerRequestBody) -> None:
        path = f"/runner/requests/{request.id}/confirm"
        try:
            await self._send(partial(api.post, path, msgspec.to_builtins(outcome)))
        except ApiError as error:  # it was deleted meanwhile
            _log.warning("the request %s cannot be confirmed: %s", request.id, error)

    def _start_check(self, api: ApiClient, request: ClaimedRunnerRequest) -> None:
        """Run a command beside other requests. One that takes longer than the lease is claimed again meanwhile."""
        if request.id in self._check_tasks:
            return

        async def check() -> None:
            await self._confirm(api, request, await self._checks.run(request.workspace_id, request.check))

        task = self._check_tasks[request.id] = asyncio.create_task(check())
        task.add_done_callback(partial(self._on_check_done, request.id))

    def _on_check_done(self, request_id: str, task: asyncio.Task[None]) -> None:
        self._check_tasks.pop(request_id, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("the outcome of a check is not confirmed; it is claimed again", exc_info=error)

    async def _carry_out(self, request: ClaimedRunnerRequest) -> ConfirmRunnerRequestBody:
        """Execute a request; return its outcome."""
        try:
            match request.action:
                case "start":
                    return await self._start(request)
                case "attach":
                    return await self._attach(request)
                case "stop":
                    return await self._stop(request.workspace_id)
                case "restart":
                    return await self._restart(request.workspace_id)
                case _:
                    return ConfirmRunnerRequestBody("done", output=self._find_bridge(request.workspace_id).log.text)
        except (RefusedError, OSError) as error:
            _log.warning("refused to %s an agent: %s", request.action, error)
            return ConfirmRunnerRequestBody("failed", str(error))

    async def _start(self, request: ClaimedRunnerRequest) -> ConfirmRunnerRequestBody:
        """Start an agent. A repeated request brings a new token: the earlier process is replaced."""
        register_secret(request.token)
        start = check_start(request.kind, request.folder, request.mode, self._options.configuration)
        if start.kind not in self._installed:
            raise RefusedError(f"{KINDS[start.kind].title} is not installed on this machine")
        record = RunnerAgentRecord(request.workspace_id, request.workspace_name, start)
        self._files.save(record, request.token)
        self._checks.add_agent(record.workspace_id, start.folder)
        earlier = self._agents.pop(request.workspace_id, None)
        if earlier is not None:
            await earlier.end()
        self._run_agent(record)
        return ConfirmRunnerRequestBody("done")

    async def _attach(self, request: ClaimedRunnerRequest) -> ConfirmRunnerRequestBody:
        """Write the configuration of a host that a person starts. Raises RefusedError, OSError."""
        register_secret(request.token)
        start = check_attach(request.kind, request.folder, self._options.configuration)
        kind, earlier = KINDS[start.kind], self._agents.get(request.workspace_id)
        if isinstance(earlier, SupervisedBridge):
            raise RefusedError("the runner runs an agent for this workspace. Stop it first")
        await self._connector.connect(kind, start.folder, request.workspace_id, request.token)
        self._files.save(RunnerAgentRecord(request.workspace_id, request.workspace_name, start), "")
        self._checks.add_agent(request.workspace_id, start.folder)
        self._agents[request.workspace_id] = AttachedAgent(request.workspace_id)
        self._changed.set()
        text = f"{kind.title} is connected in {start.folder}. End it there and start it again with `{kind.restart}`."
        return ConfirmRunnerRequestBody("done", text)

    def _restore(self, record: RunnerAgentRecord) -> None:
        """Start an agent again after a restart of the runner, if its owner still allows it."""
        self._checks.add_agent(record.workspace_id, record.start.folder)
        if record.start.mode == ATTACHED_MODE:
            self._agents[record.workspace_id] = AttachedAgent(record.workspace_id)
            return
        try:
            start = check_start(record.start.kind, record.start.folder, record.start.mode, self._options.configuration)
            register_secret(self._files.token_file(record.workspace_id).read_text(encoding="utf-8"))
            self._run_agent(RunnerAgentRecord(record.workspace_id, record.workspace_name, start))
        except (RefusedError, OSError) as error:
            _log.warning("the agent of %s is not started again: %s", record.workspace_id, error)

    def _run_agent(self, record: RunnerAgentRecord) -> None:
        agent = SupervisedBridge(
            record.workspace_id, self._command(record.start), self._environment(record), self._parts
        )
        self._agents[record.workspace_id] = agent
        agent.start()
        self._changed.set()

    def _command(self, start: AgentStart) -> Sequence[str]:
        found = self._installed.get(start.kind)
        program = KINDS[start.kind].program if found is None else found.program
        arguments = bridge_arguments(KINDS[start.kind], program=program, folder=start.folder, mode=start.mode)
        return (*self._options.command, *arguments)

    def _environment(self, record: RunnerAgentRecord) -> dict[str, str]:
        return {
            **public_environment(self._options.environment),
            "WORKSPACE_ID": record.workspace_id,
            "PLATFORM_URL": self._options.url,
            "MOLECULE_WORKSPACE_TOKEN_FILE": str(self._files.token_file(record.workspace_id)),
            "CONFIGS_DIR": str(self._files.folder_of(record.workspace_id)),
            "MOLECULE_AGENT_NAME": record.workspace_name,
        }

    def _find_bridge(self, workspace_id: str) -> SupervisedBridge:
        agent = self._agents.get(workspace_id)
        if isinstance(agent, AttachedAgent):
            raise RefusedError("a person starts this agent. Restart it in its terminal")
        if not isinstance(agent, SupervisedBridge):
            raise RefusedError("the runner does not run this agent")
        return agent

    async def _stop(self, workspace_id: str) -> ConfirmRunnerRequestBody:
        """End an agent and forget it. One that does not run is stopped already."""
        record = next((each for each in self._files.load() if each.workspace_id == workspace_id), None)
        text = "" if record is None or record.start.mode != ATTACHED_MODE else await self._disconnect(record.start)
        agent = self._agents.pop(workspace_id, None)
        if agent is not None:
            await agent.end()
        self._files.forget(workspace_id)
        self._checks.remove_agent(workspace_id)
        self._changed.set()
        return ConfirmRunnerRequestBody("done", text)

    async def _disconnect(self, start: AgentStart) -> str:
        """Remove the configuration of an attached agent; return what the operator must know. Its token ends anyway."""
        try:
            await self._connector.disconnect(KINDS[start.kind], start.folder)
        except RefusedError as error:
            return f"Its configuration in {start.folder} is still there: {error}"
        return f"Restart {KINDS[start.kind].title} in {start.folder}, which still has the tools of Molecule."

    async def _restart(self, workspace_id: str) -> ConfirmRunnerRequestBody:
        agent = self._find_bridge(workspace_id)
        await agent.end()
        agent.start()
        return ConfirmRunnerRequestBody("done")
