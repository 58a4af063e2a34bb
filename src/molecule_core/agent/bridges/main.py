"""Runs the process of `molecule bridge command`, from its environment to its exit code.

Called by the command line.
"""

import asyncio
import contextlib
import logging
import shutil
import signal
from collections.abc import Mapping, Sequence

from msgspec import Struct

from molecule_core.agent.async_utils import on_stdin_closed
from molecule_core.agent.bridges.command import CommandBridge, ProgramRunner
from molecule_core.agent.bridges.outbox import DamagedOutboxError, Outbox
from molecule_core.agent.bridges.process_runner import ProcessRunner
from molecule_core.agent.bridges.program_input import program_environment
from molecule_core.agent.bridges.settings import BridgeSettings
from molecule_core.agent.bridges.stream_runner import StreamRunner
from molecule_core.agent.client.connections import ServerConnections
from molecule_core.agent.client.tokens import TokenRegistry
from molecule_core.agent.config import Configuration, ConfigurationError
from molecule_core.agent.mailbox.cursors import CursorFile
from molecule_core.agent.mailbox.inbox import MergedInbox
from molecule_core.agent.mailbox.leader import LeaderLock
from molecule_core.agent.mailbox.membership import Membership, MembershipContext
from molecule_core.agent.mailbox.memberships import Memberships
from molecule_core.client.api import ApiError, NoAnswerError
from molecule_core.common.clock import SystemClock
from molecule_core.common.ids import SystemRandomness
from molecule_core.tools.runners.file_tools import FILES_FOLDER
from molecule_core.wire.schemas.agent_cards import BRIDGE_MEMBER, COMMAND_BRIDGE_KIND

_log = logging.getLogger("molecule.bridge")
EXIT_STOPPED, EXIT_FAILED, EXIT_REFUSED = 0, 1, 3
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SHUTDOWN_SECONDS = 2.0


class BridgeOptions(Struct, frozen=True, kw_only=True):
    """Options of the bridge.

    `shell`: the command is one line for the system's shell. `until_eof`: the bridge ends when standard input closes,
    i.e. when its parent process has exited. `stream`: one process for all messages.
    """

    command: tuple[str, ...]
    settings: BridgeSettings
    preamble: bool = False
    shell: bool = False
    until_eof: bool = False
    stream: bool = False


def resolve_program(options: BridgeOptions) -> Sequence[str]:
    """Return the command to start for each message; a shell is used only on request. Raises ConfigurationError."""
    if not options.command:
        raise ConfigurationError(
            "the command is missing; write it after --, for example: molecule bridge command -- ./answer"
        )
    if options.shell:
        return ("/bin/sh", "-c", " ".join(options.command))
    if shutil.which(options.command[0]) is None:
        raise ConfigurationError(f"the command {options.command[0]!r} does not exist or is not executable")
    return options.command


async def run_bridge(config: Configuration, options: BridgeOptions, environ: Mapping[str, str]) -> int:
    """Bridge the only workspace until a signal arrives; return the exit code. Raises ConfigurationError."""
    if len(config.workspaces) != 1:
        ids = ", ".join(workspace.id for workspace in config.workspaces)
        raise ConfigurationError(
            f"a bridge serves one workspace, but several are configured: {ids}. Set --workspace ID"
        )
    program = resolve_program(options)
    loop = asyncio.get_running_loop()
    end: asyncio.Future[int] = loop.create_future()

    def request_exit(code: int) -> None:
        if not end.done():
            end.set_result(code)

    def handle_lost(text: str) -> None:
        if not end.done():
            _log.error("%s", text)
        request_exit(EXIT_REFUSED)

    for number in _SIGNALS:
        loop.add_signal_handler(number, request_exit, EXIT_STOPPED)
    if options.until_eof:
        await on_stdin_closed(lambda: request_exit(EXIT_STOPPED))
    clock, randomness = SystemClock(), SystemRandomness()
    (workspace,) = config.workspaces
    inbox, tokens = MergedInbox(), TokenRegistry()
    tokens.register(workspace.id, workspace.token)
    servers = ServerConnections(tokens)
    membership_context = MembershipContext(
        clock=clock,
        randomness=randomness,
        settings=config.settings,
        tokens=tokens,
        servers=servers,
        inbox=inbox,
        card=lambda: _card(config),
        on_lost=handle_lost,
        files=config.state.absolute() / FILES_FOLDER,
        tools=(),  # the program has only its shell, so the server must not mention tools
    )
    membership = Membership(
        workspace,
        CursorFile(config.state, workspace.id, single=config.single),
        LeaderLock(config.state, workspace.id),
        membership_context,
    )
    runner_class = StreamRunner if options.stream else ProcessRunner
    runner: ProgramRunner = runner_class(
        program,
        program_environment(environ, workspace, config.state),
        config.state,
        clock=clock,
        settings=options.settings,
    )
    bridge = CommandBridge(
        membership,
        inbox,
        Outbox(config.state, workspace.id),
        runner,
        clock=clock,
        randomness=randomness,
        settings=options.settings,
        preamble=options.preamble,
    )
    memberships = Memberships([membership], single=True)
    memberships.start_all()
    bridge_task = asyncio.create_task(bridge.run())
    bridge_task.add_done_callback(lambda task: None if task.cancelled() else request_exit(EXIT_FAILED))
    code = await end
    try:
        bridge_task.cancel()
        await _wait_for_end(bridge_task)
        await runner.close()
        with contextlib.suppress(ApiError, NoAnswerError, OSError):
            await clock.wait(bridge.reporter.flush_outcomes(), _SHUTDOWN_SECONDS)
    finally:
        await memberships.stop_all(_SHUTDOWN_SECONDS)
        await servers.close()
    return code


async def _wait_for_end(bridge_task: "asyncio.Task[None]") -> None:
    """Wait for the bridge to end, and log the reason if it failed."""
    try:
        await bridge_task
    except asyncio.CancelledError:
        return
    except (DamagedOutboxError, OSError) as error:
        _log.error("the bridge cannot continue: %s", error)
    except Exception as error:  # an internal error: running programs are still ended and reported
        _log.error("the bridge cannot continue", exc_info=error)


def _card(config: Configuration) -> dict[str, object]:
    """Return the agent's card from its environment."""
    fields: dict[str, object] = {"name": config.name, "description": config.description}
    fields["skills"] = [{"id": name, "name": name} for name in config.skills]
    return {**{name: value for name, value in fields.items() if value}, BRIDGE_MEMBER: COMMAND_BRIDGE_KIND}
