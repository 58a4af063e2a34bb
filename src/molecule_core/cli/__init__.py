"""The `molecule` command: one file for each command, imported when it is called."""

import gc
import sys
from typing import Any

import click

from molecule_core.cli._arguments import encoding_error
from molecule_core.common.errors import MoleculeError
from molecule_core.common.version import VERSION

# Each command is imported only when it is called, so that `--help` and short commands stay fast.


def _serve() -> click.Command:
    from molecule_core.cli.serve import command

    return command


def _up() -> click.Command:
    from molecule_core.cli.up import command

    return command


def _admin() -> click.Command:
    from molecule_core.cli.admin import command

    return command


def _backup() -> click.Command:
    from molecule_core.cli.backup import command

    return command


def _restore() -> click.Command:
    from molecule_core.cli.restore import command

    return command


def _doctor() -> click.Command:
    from molecule_core.cli.doctor import command

    return command


def _prune() -> click.Command:
    from molecule_core.cli.prune import command

    return command


def _login_link() -> click.Command:
    from molecule_core.cli.login_link import command

    return command


def _chains() -> click.Command:
    from molecule_core.cli.chains import command

    return command


def _dead_letters() -> click.Command:
    from molecule_core.cli.dead_letters import command

    return command


def _memory() -> click.Command:
    from molecule_core.cli.memory import command

    return command


def _prompt() -> click.Command:
    from molecule_core.cli.prompt import command

    return command


def _instructions() -> click.Command:
    from molecule_core.cli.instructions import command

    return command


def _org() -> click.Command:
    from molecule_core.cli.org import command

    return command


def _connect() -> click.Command:
    from molecule_core.cli.connect import command

    return command


def _inbox_hook() -> click.Command:
    from molecule_core.cli.inbox_hook import command

    return command


def _mcp() -> click.Command:
    from molecule_core.cli.mcp import command

    return command


def _bridge() -> click.Command:
    from molecule_core.cli.bridge import command

    return command


def _agent() -> click.Command:
    from molecule_core.cli.agent import command

    return command


def _tool() -> click.Command:
    from molecule_core.cli.tool import command

    return command


def _peers() -> click.Command:
    from molecule_core.cli.tool import tool_command

    return tool_command("peers")


def _info() -> click.Command:
    from molecule_core.cli.tool import tool_command

    return tool_command("info")


def _reply() -> click.Command:
    from molecule_core.cli.tool import reply_command

    return reply_command("reply")


def _decline() -> click.Command:
    from molecule_core.cli.tool import reply_command

    return reply_command("decline")


def _delegate() -> click.Command:
    from molecule_core.cli.delegate import delegate

    return delegate


def _status() -> click.Command:
    from molecule_core.cli.delegate import status

    return status


def _cancel() -> click.Command:
    from molecule_core.cli.delegate import cancel

    return cancel


def _approvals() -> click.Command:
    from molecule_core.cli.approvals import command

    return command


def _delegations() -> click.Command:
    from molecule_core.cli.delegations import command

    return command


def _threads() -> click.Command:
    from molecule_core.cli.threads import command

    return command


COMMANDS = {
    "serve": ("Serve until a signal comes.", _serve),
    "up": ("Serve, and say how to connect.", _up),
    "connect": ("Put an agent's host into a seat.", _connect),
    "mcp": ("Seat an agent in its workspaces, on stdio.", _mcp),
    "bridge": ("Let a program that is no host of MCP keep a seat.", _bridge),
    "agent": ("Run an agent of our own.", _agent),
    "inbox-hook": ("For hooks of a host: name waiting mail.", _inbox_hook),
    "login-link": ("Print a one-time link into the canvas.", _login_link),
    "dead-letters": ("Messages that were given up: look, requeue, discard.", _dead_letters),
    "org": ("An organisation as a file: plan, apply, export.", _org),
    "tool": ("Call a platform tool as a workspace.", _tool),
    "reply": ("Answer a message, by its reply handle.", _reply),
    "decline": ("Say that a message will not be answered, and why.", _decline),
    "delegate": ("Give a peer a task, and wait for its result.", _delegate),
    "status": ("Tell how a task stands that one gave or was given.", _status),
    "cancel": ("End a task that one gave.", _cancel),
    "peers": ("List whom a workspace may talk to.", _peers),
    "info": ("Tell what the server knows of a workspace.", _info),
    "admin": ("The server's own token.", _admin),
    "chains": ("Message chains that ran into a limit.", _chains),
    "approvals": ("What workspaces ask leave for: look, decide, set rules.", _approvals),
    "delegations": ("Tasks that workspaces give each other: look, cancel, retry.", _delegations),
    "threads": ("Conversations of agents: look, start, speak, stop, fork.", _threads),
    "memory": ("What workspaces remember: list, search, forget.", _memory),
    "prompt": ("An agent's system prompt: show, diff, watch.", _prompt),
    "instructions": ("What agents are told with each message: list, set, preview.", _instructions),
    "backup": ("Copy the store while it is in use.", _backup),
    "restore": ("Put a copy back.", _restore),
    "prune": ("Delete what is old and handled now, or say what would go.", _prune),
    "doctor": ("Look for what is wrong, and say what to do.", _doctor),
}


class LazyCommandGroup(click.Group):
    """Group that lists its commands without importing them."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        gc.disable()  # imported objects stay: scanning them again and again takes a tenth of a server's start
        try:
            return COMMANDS[name][1]()
        finally:
            gc.enable()

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(verb, text) for verb, (text, _) in COMMANDS.items()])


@click.group(cls=LazyCommandGroup)
@click.version_option(VERSION, prog_name="molecule")
def molecule() -> None:
    """An organisation of AI agents in which no agent goes silent."""


def main(args: list[str] | None = None) -> Any:
    """Run the command line. An error is one line on standard error and exit code 2."""
    try:
        return molecule.main(args, prog_name="molecule")
    except MoleculeError as error:
        click.echo(f"molecule: {error.text}", err=True)
        sys.exit(2)
    except UnicodeEncodeError:  # only here: a path, or an argument of a bridge's program, may be any bytes
        reason = encoding_error(sys.argv[1:] if args is None else args)
        if reason is None:
            raise
        click.echo(f"molecule: {reason}", err=True)
        sys.exit(2)
