"""Formats a message for a program that is no MCP host: standard input and environment. Pure."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from molecule_core.agent import message_format
from molecule_core.agent.config import WorkspaceConfig
from molecule_core.agent.sanitize import sanitize_line, strip_invisible
from molecule_core.tools.docs import cli_docs
from molecule_core.wire.schemas import xml
from molecule_core.wire.schemas.activity import MessageKind
from molecule_core.wire.schemas.agent_cards import DECIDE_COMMAND, REPLY_COMMAND
from molecule_core.wire.schemas.inbox import InboxMessage

# Credentials of other workspaces, of a server started from the same shell, and of a person there must not reach the
# program, which reads untrusted text.
_WORKSPACE_VARIABLES = ("MOLECULE_WORKSPACES", "MOLECULE_WORKSPACE_TOKEN", "MOLECULE_WORKSPACE_TOKEN_FILE")
_PERSON_VARIABLES = ("MOLECULE_TOKEN",)
_SERVER_VARIABLES = ("ADMIN_TOKEN", "MOLECULE_ADMIN_TOKEN", "MOLECULE_METRICS_TOKEN", "MOLECULE_RUNNER_TOKEN")
# URLs, which may contain a password.
_ADDRESS_VARIABLES = ("MOLECULE_DATABASE", "MOLECULE_NATS", "MOLECULE_OTEL_ENDPOINT")


def program_input(message: InboxMessage, *, preamble: bool) -> bytes:
    """Return the standard input of a program: how to answer, and the message.

    `preamble`: precede it with how to reach people and peers from a shell.
    """
    if (instructions := message.instructions) is not None:
        answer_hint = strip_invisible(instructions.text).rstrip()
        if instructions.reply_via not in (
            REPLY_COMMAND,
            DECIDE_COMMAND,
        ):  # written for another reader: an older server, or a card changed since
            answer_hint = f"{answer_hint}\n{_answer_hint(message)}"
        content = xml.format_channel(message_format.message_fields(message), answer_hint, strip_invisible(message.text))
    else:
        content = f"{message_format.plain_text(message)}\n\n[Molecule: {_answer_hint(message)}]"
    guide = f"{cli_docs()}\n" if preamble else ""
    return f"{guide}{content}\n".encode(errors="replace")


def _answer_hint(message: InboxMessage) -> str:
    """Return how a program with a shell and no tools answers, where the server's instructions do not say it."""
    if not message.wants_answer:
        return "This program runs behind `molecule bridge`; no answer is expected."
    if message.kind == MessageKind.APPROVAL_REQUEST:
        return (
            "This program runs behind `molecule bridge`: printed text does not decide. Decide with the command "
            f"`{DECIDE_COMMAND} --json -` and the approval_id, revision and action_hash of this message."
        )
    output = "its standard output is sent as the answer when it ends, unless it has answered by a command"
    handle = sanitize_line(message.reply_handle)
    command = f". The command `molecule reply {handle}`, with the text on its standard input, sends an answer at once"
    return f"This program runs behind `molecule bridge`: {output}{command if handle else ''}."


def program_environment(inherited: Mapping[str, str], workspace: WorkspaceConfig, state: Path) -> dict[str, str]:
    """Return a program's environment: as which workspace `molecule tool` calls, and its guide."""
    public_variables = public_environment(inherited)
    token = (
        {"MOLECULE_WORKSPACE_TOKEN": workspace.token}
        if workspace.token_file is None
        else {"MOLECULE_WORKSPACE_TOKEN_FILE": str(workspace.token_file.absolute())}
    )
    # The command of this installation is found, but never before one that the person has chosen.
    search_path = [*filter(None, [inherited.get("PATH", os.defpath)]), str(Path(sys.executable).parent)]
    identity = {"WORKSPACE_ID": workspace.id, "PLATFORM_URL": workspace.url, "CONFIGS_DIR": str(state.absolute())}
    return {**public_variables, **token, **identity, "PATH": os.pathsep.join(search_path), "MOLECULE_GUIDE": cli_docs()}


def public_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without credentials of Molecule, for programs that read untrusted text."""
    return {name: value for name, value in inherited.items() if not _is_secret(name)}


def _is_secret(name: str) -> bool:
    return name in (*_WORKSPACE_VARIABLES, *_PERSON_VARIABLES, *_SERVER_VARIABLES) or name.startswith(
        _ADDRESS_VARIABLES
    )


def message_variables(message: InboxMessage, run: int) -> dict[str, str]:
    """Return the message's environment variables: each one sanitized line, since the values are untrusted."""
    variables = {
        "REPLY_HANDLE": message.reply_handle,
        "ACTIVITY_ID": message.activity_id,
        "KIND": message.kind,
        "INTENT": message.intent,
        "TASK_ID": message.delegation_id,
        "PEER_ID": message.peer_id,
        "PEER_NAME": message.peer_name,
        "USER_NAME": message.user_name,
        "ATTEMPT": str(message.attempt),
        "RUN": str(run),
    }
    return {f"MOLECULE_{name}": sanitize_line(value) for name, value in variables.items()}
