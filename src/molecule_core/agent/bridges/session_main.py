"""Runs the process of a session bridge, from its environment to its exit code.

Called by the command line, with the driver of one program.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from molecule_core.agent.async_utils import on_stdin_closed, sleep
from molecule_core.agent.bridges.outbox import DamagedOutboxError, Outbox
from molecule_core.agent.bridges.outcome_reporter import OutcomeReporter
from molecule_core.agent.bridges.permission_approvals import PermissionApprovals
from molecule_core.agent.bridges.process_runner import ProgramNotStartedError
from molecule_core.agent.bridges.program_input import public_environment
from molecule_core.agent.bridges.session_bridge import SESSION_INSTRUCTIONS, SessionBridge, SessionParts
from molecule_core.agent.bridges.session_store import SessionStore
from molecule_core.agent.bridges.session_tools import SESSION_TOOLS, SessionToolbox
from molecule_core.agent.bridges.sessions import DriverInfo, SessionDriver
from molecule_core.agent.bridges.settings import BridgeSettings
from molecule_core.agent.bridges.user_questions import UserQuestions
from molecule_core.agent.bridges.worktrees import ConversationFolders, SharedFolder, Worktrees
from molecule_core.agent.client.auth_failures import is_workspace_inaccessible
from molecule_core.agent.client.retry import BoundedRetry
from molecule_core.agent.config import Configuration, ConfigurationError
from molecule_core.agent.engines.conversations import Conversations
from molecule_core.agent.engines.retry import PersistentRetry
from molecule_core.agent.engines.vendor_limit import VendorLimit
from molecule_core.agent.host.host_approvals import HostApprovals
from molecule_core.agent.host.runtime import AgentRuntime
from molecule_core.agent.host.tool_scopes import ToolScopes
from molecule_core.agent.live.reporter import LiveReporter
from molecule_core.agent.mailbox.membership import Membership, MembershipState
from molecule_core.agent.prompt.loader import PARENT_VARIABLE, PromptLoader
from molecule_core.agent.prompt.rebuilder import PromptRebuilder, PromptUpdate
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.client.api import ApiError, NoAnswerError
from molecule_core.common.clock import SystemClock
from molecule_core.common.ids import SystemRandomness
from molecule_core.tools.runners.requester import RetryingRequester
from molecule_core.wire.schemas.agent_cards import BRIDGE_MEMBER

_log = logging.getLogger("molecule.bridge")
EXIT_STOPPED, EXIT_FAILED, EXIT_REFUSED = 0, 1, 3
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SHUTDOWN_SECONDS = 2.0
# The first turn waits this long for peers and the parent's files; a server that is away must not hold it up.
_PROMPT_SECONDS, _POLL_SECONDS = 5.0, 0.2
_SILENT = "the program wrote no final text and replied with no tool"


class SessionOptions(Struct, frozen=True, kw_only=True):
    """Options of a session bridge.

    `cwd`: folder that the program works in. `home`: folder with own prompt files and skills; None: none. `worktree`:
    each conversation works in a git worktree of its own. `until_eof`: the bridge ends when standard input closes.
    """

    settings: BridgeSettings
    cwd: Path
    home: Path | None = None
    worktree: bool = False
    until_eof: bool = False


class DriverContext(Struct, frozen=True, kw_only=True):
    """What a driver is made with. `environment`: without credentials of Molecule. `slot`: prefix of its lock names."""

    environment: Mapping[str, str]
    state: Path
    slot: str
    clock: SystemClock
    settings: BridgeSettings


DriverFactory = Callable[[DriverContext], SessionDriver]


async def run_session_bridge(
    config: Configuration, options: SessionOptions, environ: Mapping[str, str], make_driver: DriverFactory
) -> int:
    """Bridge the only workspace until a signal arrives; return the exit code. Raises ConfigurationError."""
    if len(config.workspaces) != 1:
        ids = ", ".join(workspace.id for workspace in config.workspaces)
        raise ConfigurationError(
            f"a bridge serves one workspace, but several are configured: {ids}. Set --workspace ID"
        )
    agent = SessionAgent(config, options, environ, make_driver)
    await agent.check_program()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, agent.request_exit, EXIT_STOPPED)
    if options.until_eof:
        await on_stdin_closed(lambda: agent.request_exit(EXIT_STOPPED))
    return await agent.run()


class SessionAgent:
    """One workspace, its bridge and its driver."""

    def __init__(
        self,
        config: Configuration,
        options: SessionOptions,
        environ: Mapping[str, str],
        make_driver: DriverFactory,
    ) -> None:
        self._config = config
        self._options = options
        self._environ = environ
        self._clock = clock = SystemClock()
        self._randomness = randomness = SystemRandomness()
        (workspace,) = config.workspaces
        self._driver = make_driver(
            DriverContext(
                environment=public_environment(environ),
                state=config.state,
                slot=workspace.id,
                clock=clock,
                settings=options.settings,
            )
        )
        self._info = DriverInfo(program=self._driver.name)
        self._runtime = AgentRuntime(
            config,
            clock=clock,
            card=self._card,
            client=lambda: {"name": self._info.program, "version": self._info.version},
            on_lost=self._on_lost,
            tools=tuple(each.name for each in SESSION_TOOLS),
        )
        self._membership: Membership = next(iter(self._runtime.memberships))
        self._live = LiveReporter(self._membership, clock, config.settings)
        self._prompt = ""
        self._has_prompt = asyncio.Event()
        outbox = Outbox(config.state, workspace.id)
        store = SessionStore(config.state, workspace.id, self._driver.name)
        conversations = Conversations(config.state, f"{self._driver.name}_{workspace.id}")
        own = self._membership.requester
        retry = BoundedRetry(clock=clock, randomness=randomness, is_token_renewable=own.is_token_renewable)
        requester = RetryingRequester(own, retry)
        self._reporter = OutcomeReporter(
            self._membership, self._runtime.inbox, outbox, clock=clock, randomness=randomness, silent=_SILENT
        )
        self._bridge = SessionBridge(
            SessionParts(
                membership=self._membership,
                inbox=self._runtime.inbox,
                outbox=outbox,
                store=store,
                driver=self._driver,
                reporter=self._reporter,
                approvals=PermissionApprovals(
                    HostApprovals(workspace.id, requester, clock=clock, randomness=randomness),
                    store,
                    clock=clock,
                    randomness=randomness,
                    max_bytes=options.settings.permission_bytes,
                ),
                questions=UserQuestions(workspace.id, requester, clock=clock, randomness=randomness),
                toolbox=SessionToolbox(self._runtime, conversations),
                scopes=ToolScopes(workspace.id, own, clock=clock, randomness=randomness),
                conversations=conversations,
                folders=self._folders(),
                live=self._live,
                limit=VendorLimit(
                    self._membership, store, PersistentRetry(clock, randomness, self._is_inaccessible), clock
                ),
                system_prompt=lambda: self._prompt,
                clock=clock,
                settings=options.settings,
            )
        )
        self._end: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def _is_inaccessible(self, error: ApiError) -> bool:
        return await is_workspace_inaccessible(error, self._membership.api(), self._membership.id)

    def _folders(self) -> ConversationFolders:
        if not self._options.worktree:
            return SharedFolder(self._options.cwd)
        return Worktrees(self._options.cwd, self._config.state.absolute() / "worktrees", self._membership)

    async def check_program(self) -> None:
        """Raise ConfigurationError if the program cannot run, rather than at the first message."""
        try:
            self._info = await self._driver.start()
        except ProgramNotStartedError as error:
            raise ConfigurationError(str(error)) from None

    def request_exit(self, code: int) -> None:
        """Request that the bridge ends."""
        if not self._end.done():
            self._end.set_result(code)

    async def run(self) -> int:
        """Work until the end is requested; return the exit code."""
        self._runtime.memberships.start_all()
        _log.info("workspace %s: bridged to %s %s", self._membership.id, self._info.program, self._info.version)
        tasks = [asyncio.create_task(each) for each in (self._keep_prompt(), self._work())]
        for each in tasks:
            each.add_done_callback(lambda task: None if task.cancelled() else self.request_exit(EXIT_FAILED))
        code = await self._end
        for each in tasks:
            each.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            _log_failure(result)
        await self._driver.close()
        await self._live.close()
        with contextlib.suppress(ApiError, NoAnswerError, OSError):
            await self._clock.wait(self._reporter.flush_outcomes(), _SHUTDOWN_SECONDS)
        await self._runtime.stop()
        return code

    async def _work(self) -> None:
        await self._clock.wait(self._has_prompt.wait(), _PROMPT_SECONDS)
        await self._bridge.run()

    def _on_lost(self, text: str) -> None:
        """Exit: the only workspace is lost for good."""
        if not self._end.done():
            _log.error("%s", text)
        self.request_exit(EXIT_REFUSED)

    def _card(self) -> dict[str, Any]:
        """Return the agent's card, with what this version of the program lacks."""
        fields: dict[str, Any] = {"name": self._config.name, "description": self._config.description}
        fields["skills"] = [{"id": name, "name": name} for name in self._config.skills]
        program = {"program": self._info.program, "version": self._info.version}
        abilities = {"abilities": list(self._info.abilities), "missing": list(self._info.missing)}
        own = {BRIDGE_MEMBER: self._driver.name, "bridged": {**program, **abilities}}
        return {**{name: value for name, value in fields.items() if value}, **own}

    async def _keep_prompt(self) -> None:
        """Keep the system prompt of new sessions current: own files, peers, files of the parent."""
        folder = self._options.home
        if folder is None:
            folder = self._config.state.absolute() / "prompt"
            folder.mkdir(mode=0o700, exist_ok=True)
        while self._membership.state != MembershipState.LEADING:  # of several processes only the leader works
            await sleep(self._clock, _POLL_SECONDS)
        loader = PromptLoader(
            self._membership.requester,
            self._membership.id,
            clock=self._clock,
            expected_parent=self._environ.get(PARENT_VARIABLE, "").strip(),
        )

        async def handle_update(update: PromptUpdate) -> None:
            self._prompt = f"{SESSION_INSTRUCTIONS}\n\n{update.prompt.text}".strip()
            self._has_prompt.set()
            await loader.report_prompt(update.prompt.build(update.trigger))

        rebuilder = PromptRebuilder(
            loader,
            folder,
            handle_update,
            events=lambda: self._membership.api().events(),
            on_warning=lambda text: _log.warning("%s", sanitize_line(text, 500)),
            clock=self._clock,
            randomness=self._randomness,
            tools=tuple(each.name for each in SESSION_TOOLS),
        )
        await rebuilder.run()


def _log_failure(result: BaseException | None) -> None:
    """Log why the bridge ended by itself."""
    if isinstance(result, DamagedOutboxError | OSError):
        _log.error("the bridge cannot continue: %s", result)
    elif isinstance(result, Exception):  # an internal error: running programs are still ended and reported
        _log.error("the bridge cannot continue", exc_info=result)
