"""The `molecule` command: one file for each command, imported when it is called."""

import gc
import sys
from typing import Any

import click

from molecule_core.cli._arguments import encoding_error
from molecule_core.cli._platform import unsupported_reason
from molecule_core.common.errors import CommandFailed, MoleculeError
from molecule_core.common.extras import install_advice
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


def _budget() -> click.Command:
    from molecule_core.cli.budget import command

    return command


def _schedule() -> click.Command:
    from molecule_core.cli.schedule import command

    return command


def _dead_letters() -> click.Command:
    from molecule_core.cli.dead_letters import command

    return command


def _memory() -> click.Command:
    from molecule_core.cli.memory import command

    return command


def _search() -> click.Command:
    from molecule_core.cli.search import command

    return command


def _usage() -> click.Command:
    from molecule_core.cli.usage import command

    return command


def _activity() -> click.Command:
    from molecule_core.cli.activity import command

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


def _host_hook() -> click.Command:
    from molecule_core.cli.host_hook import command

    return command


def _inbox_hook() -> click.Command:
    from molecule_core.cli.inbox_hook import command

    return command


def _mcp() -> click.Command:
    from molecule_core.cli.mcp import command

    return command


def _acp() -> click.Command:
    from molecule_core.cli.acp import command

    return command


def _bridge() -> click.Command:
    from molecule_core.cli.bridge import command

    return command


def _agent() -> click.Command:
    from molecule_core.cli.agent import command

    return command


def _agents() -> click.Command:
    from molecule_core.cli.agents import command

    return command


def _runner() -> click.Command:
    from molecule_core.cli.runner import command

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


def _ls() -> click.Command:
    from molecule_core.cli.workspaces import list_workspaces

    return list_workspaces


def _send_text() -> click.Command:
    from molecule_core.cli.workspaces import send_text

    return send_text


def _waiting() -> click.Command:
    from molecule_core.cli.workspaces import list_waiting

    return list_waiting


def _workspace() -> click.Command:
    from molecule_core.cli.workspaces import command

    return command


def _people() -> click.Command:
    from molecule_core.cli.people import command

    return command


def _apps() -> click.Command:
    from molecule_core.cli.apps import command

    return command


def _settings() -> click.Command:
    from molecule_core.cli.settings import command

    return command


COMMANDS = {
    "serve": ("Run the server.", _serve),
    "up": ("Run the server, and print how to open and use it.", _up),
    "ls": ("List the agents: status, last heard, unread, overdue.", _ls),
    "say": ("Write a message to an agent.", _send_text),
    "waiting": ("List mail that waits and answers that are overdue.", _waiting),
    "workspace": ("Create, pause, resume, remove and rotate workspaces.", _workspace),
    "people": ("List, invite and remove people.", _people),
    "apps": ("List and disconnect apps that are connected by OAuth.", _apps),
    "connect": ("Connect an agent's host to a workspace.", _connect),
    "mcp": ("Run the MCP server of an agent on stdio.", _mcp),
    "acp": ("Connect an editor to workspaces (Agent Client Protocol).", _acp),
    "bridge": ("Connect a program that is not an MCP host to a workspace.", _bridge),
    "agent": ("Run an agent from a folder.", _agent),
    "agents": ("Start, stop and list agents on machines with a runner.", _agents),
    "runner": ("Start and stop agents on this machine, as operators request.", _runner),
    "host-hook": ("Pass an event of a host's hook to its agent.", _host_hook),
    "inbox-hook": ("Print waiting messages, for the hooks of a host.", _inbox_hook),
    "login-link": ("Print a one-time login link to the canvas.", _login_link),
    "dead-letters": ("List, requeue and discard undeliverable messages.", _dead_letters),
    "org": ("Plan, apply and export an organisation as a file.", _org),
    "tool": ("Call a platform tool as a workspace.", _tool),
    "reply": ("Answer a message by its reply handle.", _reply),
    "decline": ("Decline to answer a message, with a reason.", _decline),
    "delegate": ("Delegate a task to a peer and wait for its result.", _delegate),
    "status": ("Show the status of a delegated task.", _status),
    "cancel": ("Cancel a delegated task.", _cancel),
    "peers": ("List the peers of a workspace.", _peers),
    "info": ("Show the details of a workspace.", _info),
    "admin": ("Print the admin token of the server.", _admin),
    "chains": ("List, release and end chains that reached a limit.", _chains),
    "budget": ("List, set and delete budgets.", _budget),
    "schedule": ("List, add, pause and remove schedules, and show their runs.", _schedule),
    "approvals": ("Request, list and decide approvals, and set approval rules.", _approvals),
    "delegations": ("List, cancel and retry delegated tasks.", _delegations),
    "threads": ("List, start, steer, stop and fork threads.", _threads),
    "memory": ("List, search and delete the memories of workspaces.", _memory),
    "activity": ("Show what happened in an organisation, and follow it.", _activity),
    "search": ("Search messages, delegations, threads and memories.", _search),
    "usage": ("Show what agents cost, and edit the prices of models.", _usage),
    "prompt": ("Show, compare and watch an agent's system prompt.", _prompt),
    "instructions": ("List, edit and preview instruction templates.", _instructions),
    "backup": ("Back up the store while it is in use.", _backup),
    "restore": ("Restore a backup.", _restore),
    "prune": ("Delete or count data that is past its retention.", _prune),
    "settings": ("Show the settings in force.", _settings),
    "doctor": ("Find problems, and print how to fix them.", _doctor),
}


_EXTRAS = {"asyncpg": "postgres", "nats": "nats", "langchain_core": "langchain", "any_llm": "models", "acp": "acp"}
"""Optional packages, and the extra that installs them."""


class LazyCommandGroup(click.Group):
    """Group that lists its commands without importing them."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        if (reason := unsupported_reason(name)) is not None:
            raise CommandFailed(reason=reason)
        gc.disable()  # imported objects stay: scanning them again and again takes a tenth of a server's start
        try:
            return COMMANDS[name][1]()
        finally:
            gc.enable()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise _with_choices(error) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)  # parses the arguments of the command too
        except click.UsageError as error:
            raise _with_choices(error) from None

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(verb, text) for verb, (text, _) in COMMANDS.items()])


def _with_choices(error: click.UsageError) -> click.UsageError:
    """Return an error that says what can be used instead of what does not exist."""
    from molecule_core.cli._usage_errors import with_choices  # imported only for an error

    return with_choices(error)


@click.group(cls=LazyCommandGroup)
@click.version_option(VERSION, prog_name="molecule")
def molecule() -> None:
    """Run an organisation of AI agents in which no agent goes silent."""


def main(args: list[str] | None = None) -> Any:
    """Run the command line. An error is one line on standard error and exit code 2."""
    try:
        return molecule.main(args, prog_name="molecule")
    except MoleculeError as error:
        click.echo(f"molecule: {error.text}", err=True)
        sys.exit(2)
    except ModuleNotFoundError as error:
        if (extra := _EXTRAS.get(str(error.name).partition(".")[0])) is None:
            raise
        click.echo(f"molecule: the package {error.name} is not installed. {install_advice(extra)}", err=True)
        sys.exit(2)
    except OSError as error:  # a file of another user, or a full disk, in any command
        from molecule_core.cli._os_errors import describe_os_error  # imported only for an error

        if (reason := describe_os_error(error)) is None:
            raise
        click.echo(f"molecule: {reason}", err=True)
        sys.exit(2)
    except UnicodeEncodeError:  # only here: a path, or an argument of a bridge's program, may be any bytes
        reason = encoding_error(sys.argv[1:] if args is None else args)
        if reason is None:
            raise
        click.echo(f"molecule: {reason}", err=True)
        sys.exit(2)
