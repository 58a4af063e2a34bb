"""`molecule bridge`: connects a program that is not an MCP host to a workspace.

docs/reference/configuration.md lists its settings."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from molecule_core.agent.bridges.acp.driver import AcpDriver
from molecule_core.agent.bridges.claude.driver import ClaudeDriver, ClaudeOptions
from molecule_core.agent.bridges.codex.driver import APPROVAL_POLICIES, CodexDriver
from molecule_core.agent.bridges.main import BridgeOptions, run_bridge
from molecule_core.agent.bridges.process_runner import ProcessStarter
from molecule_core.agent.bridges.session_main import DriverContext, DriverFactory, SessionOptions, run_session_bridge
from molecule_core.agent.bridges.session_tools import SESSION_TOOLS
from molecule_core.agent.bridges.sessions import SessionDriver
from molecule_core.agent.bridges.settings import read_bridge_settings
from molecule_core.agent.config import Configuration, ConfigurationError, read_configuration, select_workspace
from molecule_core.common.errors import CommandFailed
from molecule_core.common.logs import configure_logging, register_secret


@click.group("bridge")
def command() -> None:
    """Connect a program that is not an MCP host to a workspace."""


@command.command("command", context_settings={"ignore_unknown_options": True})
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
@click.option("--workspace", help="Workspace to connect, if MOLECULE_WORKSPACES names several.")
@click.option(
    "--preamble", is_flag=True, help="Explain before each message how to reach people and peers from a shell."
)
@click.option(
    "--shell", is_flag=True, help="Run PROGRAM as one line of /bin/sh. Without this option, no shell is used."
)
@click.option(
    "--stream",
    is_flag=True,
    help="Run one process for all messages, with lines of JSON, instead of one process for each.",
)
@click.option(
    "--until-eof", is_flag=True, help="Exit when standard input ends, for example when the parent process exits."
)
def per_message(program: tuple[str, ...], workspace: str | None, **flags: bool) -> None:
    """Run PROGRAM for each message, with the message as its input and its output as the final text.

    The final text is sent as the answer, unless the program has answered with `molecule reply` or another tool. A
    workspace with `send_drafts` off keeps it as a draft. The environment names the workspace, as for `molecule mcp`.
    Exit code 0: ended by a signal; 2: invalid arguments; 3: the server rejects the token."""
    try:
        configuration = _read_workspace(workspace)
        options = BridgeOptions(command=program, settings=read_bridge_settings(os.environ), **flags)
        sys.exit(asyncio.run(run_bridge(configuration, options, os.environ)))
    except ConfigurationError as error:
        raise CommandFailed(reason=error) from None


def session_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that all bridges with sessions have."""
    options = (
        click.option("--workspace", help="Workspace to connect, if MOLECULE_WORKSPACES names several."),
        click.option(
            "--cwd",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            default=Path(),
            help="Folder that the agent works in.  [default: the current one]",
        ),
        click.option(
            "--home",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            help="Folder with config.yaml, prompt files and skills, for the system prompt.",
        ),
        click.option("--worktree", is_flag=True, help="Let each conversation work in a git worktree of its own."),
        click.option(
            "--until-eof",
            is_flag=True,
            help="Exit when standard input ends, for example when the parent process exits.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def run_sessions(make_driver: DriverFactory, workspace: str | None, cwd: Path, **flags: Any) -> None:
    """Run a bridge with sessions until it ends, and exit with its code."""
    try:
        configuration = _read_workspace(workspace)
        options = SessionOptions(settings=read_bridge_settings(os.environ), cwd=cwd.resolve(), **flags)
        sys.exit(asyncio.run(run_session_bridge(configuration, options, os.environ, make_driver)))
    except ConfigurationError as error:
        raise CommandFailed(reason=error) from None


def _read_workspace(workspace: str | None) -> Configuration:
    """Read the configuration of one workspace and set up logging. Raises ConfigurationError."""
    configuration = select_workspace(read_configuration(os.environ), workspace)
    for connection in configuration.workspaces:
        register_secret(connection.token)
    configure_logging("debug" if configuration.settings.verbose else "info", "text")
    for name in ("httpx2", "httpcore2", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
    return configuration


@command.command("claude", context_settings={"ignore_unknown_options": True})
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
@session_options
@click.option("--program", default="claude", show_default=True, help="Program of Claude Code.")
@click.option("--permission-mode", help="Permission mode of Claude Code.  [default: that of its settings]")
@click.option(
    "--allow-skipping-permissions",
    is_flag=True,
    help="Accept a mode or flag that lets Claude Code act without permission prompts.",
)
def claude(
    flags: tuple[str, ...], program: str, permission_mode: str | None, allow_skipping_permissions: bool, **options: Any
) -> None:
    """Answer the messages of a workspace with Claude Code. FLAGS are further flags of Claude Code, after --.

    Each conversation has a session that is kept and resumed. Permission prompts become approvals, questions become
    buttons in the chat, and the final text of a turn is sent as the answer. Exit code 0: ended by a signal; 2: invalid
    arguments; 3: the server rejects the token."""
    all_flags = (*(("--permission-mode", permission_mode) if permission_mode else ()), *flags)
    if not allow_skipping_permissions and any(_skips_permissions(each) for each in all_flags):
        raise CommandFailed(
            reason="Claude Code cannot run without permission prompts. Use --allow-skipping-permissions to accept that."
        )

    def make_driver(context: DriverContext) -> SessionDriver:
        return ClaudeDriver(
            ClaudeOptions(command=(program,), flags=all_flags),
            SESSION_TOOLS,
            context.environment,
            context.state,
            slot=context.slot,
            clock=context.clock,
            settings=context.settings,
        )

    run_sessions(make_driver, **options)


def _skips_permissions(flag: str) -> bool:
    return "bypassPermissions" in flag or "dangerously-skip-permissions" in flag


@command.command("codex", context_settings={"ignore_unknown_options": True})
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
@session_options
@click.option("--program", default="codex", show_default=True, help="Program of Codex.")
@click.option(
    "--approval-policy",
    type=click.Choice(APPROVAL_POLICIES),
    default=APPROVAL_POLICIES[0],
    show_default=True,
    help="When Codex asks for a permission.",
)
@click.option(
    "--allow-skipping-permissions",
    is_flag=True,
    help="Accept a flag that lets Codex act without its sandbox or its prompts.",
)
def codex(
    flags: tuple[str, ...], program: str, approval_policy: str, allow_skipping_permissions: bool, **options: Any
) -> None:
    """Answer the messages of a workspace with Codex. FLAGS are further flags of `codex app-server`, after --.

    Each conversation has a thread of Codex that is kept and resumed. Requests for permissions become approvals, and the
    final text of a turn is sent as the answer. Exit code 0: ended by a signal; 2: invalid arguments; 3: the server
    rejects the token."""
    if not allow_skipping_permissions and any(_skips_codex_permissions(each) for each in flags):
        raise CommandFailed(
            reason="Codex cannot run without its sandbox and permissions. Use --allow-skipping-permissions for that."
        )

    def make_driver(context: DriverContext) -> SessionDriver:
        starter = ProcessStarter(
            (program, "app-server", *flags),
            context.environment,
            context.state,
            clock=context.clock,
            settings=context.settings,
        )
        return CodexDriver(
            starter,
            SESSION_TOOLS,
            slot=context.slot,
            clock=context.clock,
            settings=context.settings,
            approval_policy=approval_policy,
        )

    run_sessions(make_driver, **options)


@command.command("acp", context_settings={"ignore_unknown_options": True})
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
@session_options
@click.option("--auth-method", default="", help="Method of the agent to log in with.  [default: by its API key]")
def acp(program: tuple[str, ...], auth_method: str, **options: Any) -> None:
    """Answer the messages of a workspace with an agent that speaks the Agent Client Protocol, started by PROGRAM.

    Needs the extra `acp`. Each conversation has a session that is loaded again after a restart, if the agent can do
    that. Requests for permissions become approvals, and the final text of a turn is sent as the answer. Exit code 0:
    ended by a signal; 2: invalid arguments; 3: the server rejects the token."""

    def make_driver(context: DriverContext) -> SessionDriver:
        starter = ProcessStarter(
            program, context.environment, context.state, clock=context.clock, settings=context.settings
        )
        return AcpDriver(
            starter,
            SESSION_TOOLS,
            slot=context.slot,
            clock=context.clock,
            settings=context.settings,
            environment=context.environment,
            auth_method=auth_method,
        )

    run_sessions(make_driver, **options)


def _skips_codex_permissions(flag: str) -> bool:
    return any(each in flag for each in ("danger-full-access", "dangerously-bypass", "approval_policy"))
