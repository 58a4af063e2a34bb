"""`molecule acp`: an agent of the Agent Client Protocol for editors, on standard input and output."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import click

from molecule_core.agent.acp_library import load_acp_library
from molecule_core.agent.editor.account import PersonCredential
from molecule_core.agent.editor.main import EditorOptions, run_editor_agent
from molecule_core.agent.editor.prompt_turn import TurnTimes
from molecule_core.cli._client import client_options, org_option
from molecule_core.cli._options import (
    TOKEN_VARIABLE,
    load_client_settings,
    missing_token_reason,
    owner_token,
    server_address,
)
from molecule_core.client.regular_file import read_regular_file
from molecule_core.common.clock import SystemClock
from molecule_core.common.errors import CommandFailed
from molecule_core.common.ids import SystemRandomness
from molecule_core.common.logs import configure_logging, register_secret

_SESSIONS_FOLDER = "acp-sessions"
_MAX_TOKEN_BYTES = 1000
_ADVICE = (
    f"An operator creates a token with `molecule people token PERSON --file FILE`. Start `molecule acp` with "
    f"--token-file FILE, or set {TOKEN_VARIABLE} in the configuration of the editor."
)


@click.command("acp")
@click.option(
    "--workspace", help="Workspace of new sessions: id, unique name or path.  [default: that of the last one]"
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"File with the token of a person, instead of {TOKEN_VARIABLE}.",
)
@click.option(
    "--wait",
    type=click.IntRange(min=1),
    default=600,
    show_default=True,
    help="Seconds without any sign of work after which a prompt ends without its answer, which comes later.",
)
@click.option("--verbose", is_flag=True, help="Log more, on standard error.")
@org_option
@client_options
def command(
    workspace: str | None, token_file: Path | None, wait: int, verbose: bool, org: str | None, **flags: Any
) -> None:
    """Connect an editor to workspaces: an agent of the Agent Client Protocol on standard input and output.

    Needs the extra `acp`. Editors start this command; see docs/how-to/editors.md. It acts as the person whose token is
    in --token-file or MOLECULE_TOKEN, else as the admin of the server on this machine."""
    load_acp_library()
    configure_logging("info" if verbose else "warning", "text")
    for name in ("httpx2", "httpcore2", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
    settings = load_client_settings(**flags)
    address = server_address(flags, settings)

    def find_credential() -> PersonCredential:
        try:
            token = _read_token(token_file) if token_file is not None else owner_token(settings, address)
        except CommandFailed as error:
            return PersonCredential(address, None, error.text)
        reason = "" if token else f"{missing_token_reason(settings).capitalize()}."
        return PersonCredential(address, token, reason)

    options = EditorOptions(
        find_credential=find_credential,
        folder=settings.state_folder / _SESSIONS_FOLDER,
        advice=_ADVICE,
        times=TurnTimes(wait=float(wait)),
        workspace=workspace,
        org=org,
    )
    asyncio.run(run_editor_agent(options, SystemClock(), SystemRandomness()))


def _read_token(file: Path) -> str:
    """Return the token in a file. Raises CommandFailed."""
    try:
        content = read_regular_file(file)
        token = content.decode("ascii").strip() if len(content) <= _MAX_TOKEN_BYTES else ""
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(reason=f"--token-file {file} cannot be read: {error}") from None
    if not token or len(token.split()) != 1:
        raise CommandFailed(reason=f"--token-file {file} must contain one token and nothing else.")
    register_secret(token)
    return token
