"""Runs `molecule agent run`, an agent with its own engine, from its folder to its exit code.

Called by the command line.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from molecule_core.agent.async_utils import on_stdin_closed
from molecule_core.agent.backoff import BackOff
from molecule_core.agent.client.auth_failures import is_workspace_inaccessible
from molecule_core.agent.config import Configuration, ConfigurationError
from molecule_core.agent.engines.active_drives import ActiveDrives
from molecule_core.agent.engines.approval_cache import DecisionCache
from molecule_core.agent.engines.approval_gate import ToolApprovalGate
from molecule_core.agent.engines.conversations import Conversations, awaited_id_in, is_settled
from molecule_core.agent.engines.mail_loop import MailLoop
from molecule_core.agent.engines.model_factory import ModelFactory
from molecule_core.agent.engines.models import ModelUnavailableError
from molecule_core.agent.engines.retry import PersistentRetry
from molecule_core.agent.engines.sampler import Sampler
from molecule_core.agent.engines.settings import RunConfig, read_run_config
from molecule_core.agent.engines.toolbox import ThreadToolCall, Toolbox
from molecule_core.agent.engines.turn_driver import REQUEST_APPROVAL, DriverDependencies, TurnDriver
from molecule_core.agent.engines.vendor_limit import LimitMemory, VendorLimit
from molecule_core.agent.host.runtime import AgentRuntime
from molecule_core.agent.live.reporter import LiveReporter
from molecule_core.agent.mailbox.membership import REMOVED_CODE, Membership, MembershipState
from molecule_core.agent.prompt.assembly import Prompt
from molecule_core.agent.prompt.home import read_home
from molecule_core.agent.prompt.loader import PARENT_VARIABLE, PromptLoader, PromptServerError
from molecule_core.agent.prompt.rebuilder import PromptRebuilder, PromptUpdate
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.client.api import ApiError
from molecule_core.client.threads import ThreadsClient
from molecule_core.common.clock import SystemClock
from molecule_core.common.ids import IdGenerator, SystemRandomness
from molecule_core.common.settings import environment
from molecule_core.common.version import VERSION
from molecule_core.tools.mcp_dispatcher import CallContext, ToolResult
from molecule_core.tools.runners import collaboration_tools
from molecule_core.tools.runners.collaboration_tools import CollabCaller
from molecule_core.tools.runners.file_tools import FILES_FOLDER
from molecule_core.tools.runners.requester import RetryingRequester
from molecule_core.tools.spec import IDENTITY_ARGUMENT, ToolError, ToolSpec

_log = logging.getLogger("molecule.engine")
EXIT_STOPPED, EXIT_FAILED, EXIT_REFUSED = 0, 1, 3
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_POLL_SECONDS, _RETRY_SECONDS, _MAX_RETRY_SECONDS = 0.2, 1.0, 30.0


async def run_agent(
    config: Configuration, folder: Path, environ: Mapping[str, str], *, once: bool, until_eof: bool = False
) -> int:
    """Work until a signal arrives; return the exit code. Raises ConfigurationError.

    `once`: until nothing is left to do. `until_eof`: until standard input closes.
    """
    if len(config.workspaces) != 1:
        ids = ", ".join(workspace.id for workspace in config.workspaces)
        raise ConfigurationError(f"an agent folder serves one workspace, but several are configured: {ids}")
    agent = EngineAgent(config, read_run_config(folder), folder, environ)
    agent.check_model()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, agent.request_exit, EXIT_STOPPED)
    if until_eof:
        await on_stdin_closed(lambda: agent.request_exit(EXIT_STOPPED))
    return await agent.run(once=once)


class EngineAgent:
    """Agent of one folder in one workspace."""

    def __init__(self, config: Configuration, run_config: RunConfig, folder: Path, environ: Mapping[str, str]) -> None:
        self._config = run_config
        self._folder = folder
        self._skills = _card_skills(folder, run_config)
        self._clock = clock = SystemClock()
        self._randomness = randomness = SystemRandomness()
        ids = IdGenerator(clock, randomness)
        self._model_factory = ModelFactory(folder, environ, run_config)
        self._toolbox = Toolbox(
            run_config.tools,
            self,
            self._run_collab_tool,
            on_result=self._record_result,
            max_bytes=run_config.tool_output_bytes,
        )
        self._runtime = AgentRuntime(
            config,
            clock=clock,
            card=self._card,
            client=lambda: {"name": "molecule-agent", "version": VERSION},
            on_lost=self._on_lost,
            tools=self._toolbox.names,
        )
        self._membership: Membership = next(iter(self._runtime.memberships))
        self._retry = PersistentRetry(clock, randomness, self._is_inaccessible)
        self._requester = RetryingRequester(self._membership.requester, self._retry)
        self._threads = ThreadsClient(self._membership.api, self._membership.id)
        self._decisions = DecisionCache()
        self._conversations = Conversations(config.state, self._membership.id)
        self._gate = ToolApprovalGate(
            run_config.approval_rules,
            self._requester,
            self._membership.id,
            clock=clock,
            wait_seconds=run_config.approval_wait_seconds,
            on_pending=self._conversations.expect_result,
            decisions=self._decisions,
        )
        self._limit = VendorLimit(self._membership, LimitMemory(), self._retry, clock)
        sampler = Sampler(
            clock=clock,
            ids=ids,
            randomness=randomness,
            limit=self._limit,
            tries=run_config.tries,
            seconds=run_config.sampling_seconds,
            parallel=run_config.parallel,
        )
        self._mail_loop = MailLoop(
            self._membership,
            self._runtime.inbox,
            self._threads,
            self._conversations,
            self._decisions,
            retry=self._retry,
            max_tokens=run_config.budget.thread,
            settings={"model": run_config.model, **({"effort": run_config.effort} if run_config.effort else {})},
        )
        self._live = LiveReporter(self._membership, clock, config.settings)
        deps = DriverDependencies(
            self._threads,
            self._model_factory,
            sampler,
            self._toolbox,
            self._gate,
            self._retry,
            ids,
            run_config,
            self._live,
            config.state.absolute() / FILES_FOLDER,
        )
        self._owner = _load_owner(config.state, ids)
        driver = TurnDriver(
            deps,
            self._owner,
            prompt=lambda: self._prompt,
            on_end=self._mail_loop.record_end,
            task_of=self._conversations.task_of,
        )
        self._drives = ActiveDrives(driver.drive, clock=clock, randomness=randomness)
        self._prompt: Prompt | None = None
        self._prompt_reported = asyncio.Event()
        self._is_recovered = False
        """Whether the work that an earlier process left is known."""
        self._end: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def check_model(self) -> None:
        """Raise ConfigurationError if the model cannot be opened, rather than at the first message."""
        try:
            self._model_factory.open(self._config.model)
        except ModelUnavailableError as error:
            raise ConfigurationError(str(error)) from None

    def request_exit(self, code: int) -> None:
        """Request that the agent ends."""
        if not self._end.done():
            self._end.set_result(code)

    async def run(self, *, once: bool) -> int:
        """Work until the end is requested; return the exit code."""
        self._runtime.memberships.start_all()
        main_tasks = [asyncio.ensure_future(each) for each in (self._keep_prompt(), self._run_work(once))]
        for each in main_tasks:
            each.add_done_callback(self._on_task_done)
        code = await self._end
        ending_tasks = [*main_tasks, *self._drives.tasks]
        for each in ending_tasks:
            each.cancel()
        await asyncio.gather(*ending_tasks, return_exceptions=True)
        await self._live.close()
        await self._runtime.stop()
        await self._model_factory.close()
        return code

    def _on_task_done(self, task: "asyncio.Future[None]") -> None:
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, ApiError) and error.code == REMOVED_CODE:
            self._on_lost(f"workspace {self._membership.id} was removed by its operator")
        elif error is not None:
            _log.error("the agent cannot continue", exc_info=error)
        self.request_exit(EXIT_STOPPED if error is None else EXIT_FAILED)

    def _on_lost(self, text: str) -> None:
        """Exit: the only workspace is lost for good."""
        if not self._end.done():
            _log.error("%s", text)
        self.request_exit(EXIT_REFUSED)

    async def _is_inaccessible(self, error: ApiError) -> bool:
        return await is_workspace_inaccessible(error, self._membership.api(), self._membership.id)

    def _card(self) -> dict[str, Any]:
        fields = {"name": self._config.name, "description": self._config.description, "skills": self._skills}
        return {name: value for name, value in fields.items() if value}

    async def _publish_skills(self) -> None:
        """Update the skills on the agent's card if its files have changed."""
        skills = _card_skills(self._folder, self._config)
        if skills == self._skills:
            return
        self._skills = skills
        card = {**(self._membership.card or self._card()), "skills": skills}
        if self._membership.card is not None:
            self._membership.set_card(card)
        body = {"workspace_id": self._membership.id, "agent_card": card}
        try:
            await self._retry.retry_call(lambda: self._membership.api().post("/registry/update-card", body))
        except ApiError as error:
            _log.warning("the skills could not be published: %s", sanitize_line(str(error), 300))

    # -- the prompt ----------------------------------------------------------------------------------------------------

    async def _keep_prompt(self) -> None:
        """Keep the prompt current and reported to the server."""
        await self._until_leading()
        loader = PromptLoader(
            self._membership.requester,
            self._membership.id,
            clock=self._clock,
            expected_parent=environment().get(PARENT_VARIABLE, "").strip(),
        )

        async def handle_update(update: PromptUpdate) -> None:
            self._read_rules()
            await self._publish_skills()
            await self._report_prompt(loader, update)
            self._prompt = update.prompt
            self._prompt_reported.set()

        rebuilder = PromptRebuilder(
            loader,
            self._folder,
            handle_update,
            events=lambda: self._membership.api().events(),
            on_warning=lambda text: _log.warning("%s", sanitize_line(text, 500)),
            clock=self._clock,
            randomness=self._randomness,
            tools=self._toolbox.names,
        )
        await rebuilder.run()

    def _read_rules(self) -> None:
        """Read the approval rules; while the file cannot be read, the previous ones apply."""
        try:
            self._gate.rules = list(read_run_config(self._folder).approval_rules)
        except ConfigurationError as error:
            _log.warning("the approval rules could not be updated: %s", error)

    async def _report_prompt(self, loader: PromptLoader, new: PromptUpdate) -> None:
        """Report the prompt, and retry until the server has it: threads start with the last reported prompt."""
        build = new.prompt.build(new.trigger)
        for warning in build.warnings:
            _log.warning("%s", sanitize_line(warning, 500))
        back_off = BackOff(_RETRY_SECONDS, _MAX_RETRY_SECONDS, self._randomness)
        while True:
            try:
                await loader.report_prompt(build)
                return
            except PromptServerError as error:
                _log.warning("the prompt could not be reported to the server: %s", error)
                if isinstance(error.__cause__, ApiError) and not await self._retry.is_transient(error.__cause__):
                    return
            await self._retry.sleep(back_off.next_delay())

    # -- work ----------------------------------------------------------------------------------------------------------

    async def _until_leading(self) -> None:
        while self._membership.state != MembershipState.LEADING:  # of several processes only the leader works
            await self._retry.sleep(_POLL_SECONDS)

    async def _run_work(self, once: bool) -> None:
        await self._until_leading()
        await self._prompt_reported.wait()
        _log.info("workspace %s: working with %s", self._membership.id, self._config.model)
        tasks = [asyncio.ensure_future(each) for each in (self._mail_loop.run(), self._drive_loop(), self._limit.run())]
        if once:
            tasks.append(asyncio.ensure_future(self._wait_until_idle()))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _drive_loop(self) -> None:
        """Drive every thread with work: first those that an earlier process left."""
        while True:
            thread_ids = await self._threads_with_work(0 if not self._is_recovered else _HOLD_SECONDS)
            new_ids = [each for each in thread_ids if each not in self._drives]
            for each in new_ids:
                self._drives.start_drive(each)
            self._is_recovered = True
            if thread_ids and not new_ids:  # they wait for a running turn
                await self._drives.wait_for_any(thread_ids, _RETRY_SECONDS)

    async def _threads_with_work(self, wait: int) -> list[str]:
        owner, include_own = self._owner, not self._is_recovered
        return await self._retry.retry_call(lambda: self._threads.find_work(owner, wait=wait, include_own=include_own))

    def _is_idle(self) -> bool:
        return self._mail_loop.is_idle and not self._drives.tasks

    async def _wait_until_idle(self) -> None:
        """Wait until no message waits and nothing is in work."""
        await self._membership.first_poll_done.wait()
        while True:
            if self._is_recovered and self._is_idle() and not await self._threads_with_work(0) and self._is_idle():
                return
            await self._retry.sleep(_POLL_SECONDS)

    # -- tools ---------------------------------------------------------------------------------------------------------

    async def call(self, spec: ToolSpec, arguments: Struct, context: CallContext) -> ToolResult:
        """Run a tool of the registry. Raises ToolError."""
        if spec.name != REQUEST_APPROVAL:
            return await self._runtime.call(spec, arguments, context)
        with self._decisions.track_call():
            outcome = await self._runtime.call(spec, arguments, context)
            self._decisions.record_call(
                str(outcome.structured.get("approval_id")), settled=is_settled(outcome.structured)
            )
        return outcome

    async def _run_collab_tool(self, thread_id: str, arguments: Struct, call_id: str) -> dict[str, Any]:
        """Run a tool about other threads; a wait is repeated until it is over, however long."""
        if getattr(arguments, IDENTITY_ARGUMENT) not in ("", self._membership.id):
            raise ToolError(
                f"you always act as workspace {self._membership.id}. Omit via_workspace.", "wrong_workspace"
            )
        caller = CollabCaller(self._membership.id, thread_id)
        return await collaboration_tools.call_from_thread(
            self._requester, caller, arguments, call_id, clock=self._clock
        )

    def _record_result(self, call: ThreadToolCall, result: dict[str, Any]) -> None:
        if not is_settled(result) and (awaited_id := awaited_id_in(call.tool, result)):
            self._conversations.expect_result(awaited_id, call.thread_id)


_HOLD_SECONDS = 25


def _card_skills(folder: Path, config: RunConfig) -> list[dict[str, Any]]:
    """Return the skills of an agent's folder as entries of its card, after one with the examples of the agent."""
    examples = [{"id": "requests", "name": "Requests", "examples": config.examples}] if config.examples else []
    skills = read_home(folder).skills
    return [*examples, *({"id": each.name, "name": each.name, "description": each.description} for each in skills)]


def _load_owner(state: Path, ids: IdGenerator) -> str:
    """Return the owner name for claims of threads.

    It is stable, so that after a restart the agent need not wait for its own lease to end.
    """
    path = state / ".agent_owner"
    if not path.exists():
        temporary = path.with_name(f"{path.name}.tmp")
        handle = os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(f"agent-{ids.new()}")
        temporary.replace(path)
    return path.read_text(encoding="utf-8").strip()
