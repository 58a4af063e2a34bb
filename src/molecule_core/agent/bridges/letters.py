"""A message as a program gets it that is no host of MCP: its standard input, and its environment. Pure.

Above: command. Below: the one builder of markup, the texts about tools.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from molecule_core.agent import words
from molecule_core.agent.config import SeatConfig
from molecule_core.agent.neutral import line, visible
from molecule_core.wire import markup
from molecule_core.wire.cards import DECIDE_COMMAND, REPLY_COMMAND
from molecule_core.wire.inbox import APPROVALS, InboxMessage
from molecule_core.wire.tooldocs import a2a_for_cli

# Who else a bridge may be to its own environment is no business of the program, nor is what a server has there that
# was started from the same shell, nor as whom a person works there: the program reads what strangers write.
_OWN = ("MOLECULE_WORKSPACES", "MOLECULE_WORKSPACE_TOKEN", "MOLECULE_WORKSPACE_TOKEN_FILE")
_PERSONS = ("MOLECULE_TOKEN",)
_SERVERS = ("ADMIN_TOKEN", "MOLECULE_ADMIN_TOKEN", "MOLECULE_METRICS_TOKEN")
# Addresses, which may hold a password.
_ADDRESSES = ("MOLECULE_DATABASE", "MOLECULE_NATS", "MOLECULE_OTEL_ENDPOINT")


def letter(message: InboxMessage, *, preamble: bool) -> bytes:
    """What a program reads on its standard input: how to answer, and what was said; `preamble`: before it, how to reach
    people and peers from a shell."""
    if (told := message.instructions) is not None:
        how = visible(told.text).rstrip()
        if told.reply_via not in (
            REPLY_COMMAND,
            DECIDE_COMMAND,
        ):  # its words are for somebody else: an older server, or another card by now
            how = f"{how}\n{_how(message)}"
        content = markup.channel(words.facts_of(message), how, visible(message.text))
    else:
        content = f"{words.said(message)}\n\n[Molecule: {_how(message)}]"
    before = f"{a2a_for_cli()}\n" if preamble else ""
    return f"{before}{content}\n".encode(errors="replace")


def _how(message: InboxMessage) -> str:
    """How a program answers that has a shell and no tools, where the server's words do not say it."""
    if message.intent != "request":
        return "This program runs behind `molecule bridge`; no answer is expected."
    if message.kind == APPROVALS[0]:
        return (
            "This program runs behind `molecule bridge`: what it prints decides nothing; the command "
            f"`{DECIDE_COMMAND} --json -` does, with the approval_id, revision and action_hash of this message."
        )
    draft = "what it prints on standard output is the draft of its answer, which a person may still have to send"
    handle = line(message.reply_handle)
    command = f"; the command `molecule reply {handle}`, with the text on its standard input, sends one at once"
    return f"This program runs behind `molecule bridge`: {draft}{command if handle else ''}."


def environment_of(inherited: Mapping[str, str], seat: SeatConfig, state: Path) -> dict[str, str]:
    """What a program finds in its environment with every message: as whom `molecule tool` calls, and how to use it."""
    kept = {name: value for name, value in inherited.items() if not _is_secret(name)}
    token = (
        {"MOLECULE_WORKSPACE_TOKEN": seat.token}
        if seat.token_file is None
        else {"MOLECULE_WORKSPACE_TOKEN_FILE": str(seat.token_file.absolute())}
    )
    # The command of this very installation is found, but never before one that the person has chosen.
    places = [*filter(None, [inherited.get("PATH", os.defpath)]), str(Path(sys.executable).parent)]
    told = {"WORKSPACE_ID": seat.id, "PLATFORM_URL": seat.url, "CONFIGS_DIR": str(state.absolute())}
    return {**kept, **token, **told, "PATH": os.pathsep.join(places), "MOLECULE_GUIDE": a2a_for_cli()}


def _is_secret(name: str) -> bool:
    return name in (*_OWN, *_PERSONS, *_SERVERS) or name.startswith(_ADDRESSES)


def facts_of(message: InboxMessage, run: int) -> dict[str, str]:
    """What a program finds there of the message: one harmless line each, as it is no text of ours."""
    facts = {
        "REPLY_HANDLE": message.reply_handle,
        "ACTIVITY_ID": message.activity_id,
        "KIND": message.kind,
        "INTENT": message.intent,
        "PEER_ID": message.peer_id,
        "PEER_NAME": message.peer_name,
        "USER_NAME": message.user_name,
        "ATTEMPT": str(message.attempt),
        "RUN": str(run),
    }
    return {f"MOLECULE_{name}": line(value) for name, value in facts.items()}
