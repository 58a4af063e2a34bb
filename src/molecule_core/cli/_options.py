"""What several verbs share: flags that become settings, and the state folder with its admin token."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from molecule_core.common.errors import BadSettings, CommandFailed
from molecule_core.common.ids import SystemRandomness
from molecule_core.common.logs import register_secret
from molecule_core.common.net.server_url import URL_EXAMPLES, parse_server_url
from molecule_core.common.settings import Settings, configured_admin_token, environment, load_settings
from molecule_core.common.tokens import MIN_ADMIN_TOKEN_LENGTH, new_admin_token

F = TypeVar("F", bound=Callable[..., Any])
ADMIN_TOKEN_FILE = "admin-token"
DEMO_FOLDER = "demo"
"""Of the state folder: the demo keeps its own state."""
TOKEN_VARIABLE = "MOLECULE_TOKEN"
"""Holds the token of an owner who works with a server on another machine."""
BACKUP_STAMP = "last-backup"
"""A file of the state folder whose time tells of the last backup."""


def state_options(command: F) -> F:
    """The flags of every verb that touches a store."""
    for option in (
        click.option("--state-dir", help="Where the store, the admin token and files live.  [default: ~/.molecule]"),
        click.option(
            "--database",
            help="postgresql://... instead of SQLite in the state folder. A password belongs "
            "into MOLECULE_DATABASE or ~/.pgpass, not on the command line.",
        ),
    ):
        command = option(command)
    return command


def serve_options(command: F) -> F:
    """The flags of the verbs that serve."""
    for option in (
        click.option("--allowed-host", "allowed_hosts", multiple=True, help="Another host name to answer for."),
        click.option(
            "--push-network",
            "push_networks",
            multiple=True,
            help="A network (10.20.0.0/16) that urls of agents may lead to, beside public addresses.",
        ),
        click.option(
            "--files-dir",
            help="Where files are kept; servers that share a database share it.  [default: files in the state folder]",
        ),
        click.option("--public-url", help="The address that agents and people are told, behind a proxy."),
        click.option("--log-format", type=click.Choice(["text", "json"]), help="How to log.  [default: text]"),
        click.option(
            "--log-level",
            type=click.Choice(["debug", "info", "warning", "error"]),
            help="What to log.  [default: info; with up: warning]",
        ),
        click.option("--port", type=int, help="[default: 8080]"),
        click.option("--host", help="[default: 127.0.0.1]"),
    ):
        command = option(command)
    return state_options(command)


def load_cli_settings(defaults: dict[str, Any] | None = None, **flags: Any) -> Settings:
    """The settings in force for these flags. `usual`: what this verb has instead of the defaults."""
    return load_settings(environment(), {name: value for name, value in flags.items() if value != ()}, defaults)


def server_address(value: str | None, option: str, settings: Settings) -> str:
    """The address of the server that an option names, else of the one on this machine. Raises CommandFailed."""
    if not value:
        return settings.url
    url = parse_server_url(value)
    if url is None:
        raise CommandFailed(reason=f"{option} names no address of a server; {URL_EXAMPLES}")
    return url


def owner_token(settings: Settings) -> str | None:
    """What opens a server to its owner: the token in MOLECULE_TOKEN, else the admin's of this machine; None if there is
    neither. Nothing is made for it."""
    if token := environment().get(TOKEN_VARIABLE, ""):
        register_secret(token)
        return token
    return ensure_admin_token(settings) if has_admin_token(settings) else None


def has_admin_token(settings: Settings) -> bool:
    """Whether there is a token of the server already. Whoever only asks a server must not make one that it does not
    know."""
    return bool(configured_admin_token(environment())) or (settings.state_folder / ADMIN_TOKEN_FILE).exists()


def missing_token_reason(settings: Settings) -> str:
    """Why nothing can be asked then, and what to do."""
    demo = settings.state_folder / DEMO_FOLDER
    hint = f"; the demo's is in {demo}: --state-dir {demo}" if (demo / ADMIN_TOKEN_FILE).exists() else ""
    return f"{settings.state_folder} holds no admin token{hint}"


def prepare_state_folder(settings: Settings) -> Path:
    """The state folder, made for its owner alone. Raises BadSettings."""
    folder = settings.state_folder
    try:
        # The demo's folder lies in the state folder, which may have to be made too, and not for all to look into.
        for each in (*reversed(folder.parents), folder):
            each.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise BadSettings(reason=f"the state folder {folder} cannot be made: {error.strerror}") from None
    return folder


def ensure_admin_token(settings: Settings) -> str:
    """The server's own token: the operator's, or the one in the state folder, made at the first start (mode 0600)."""
    if configured := configured_admin_token(environment()):
        if len(configured) < MIN_ADMIN_TOKEN_LENGTH:
            raise BadSettings(reason=f"MOLECULE_ADMIN_TOKEN must have at least {MIN_ADMIN_TOKEN_LENGTH} characters")
        register_secret(configured)
        return configured
    path = prepare_state_folder(settings) / ADMIN_TOKEN_FILE
    token = new_admin_token(SystemRandomness())
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return _read_token_file(path)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(token + "\n")
    return token


def _read_token_file(path: Path) -> str:
    """The token in a file. An empty or cut file must not become an easy way in."""
    token = path.read_text(encoding="utf-8", errors="replace").strip()
    if len(token) < MIN_ADMIN_TOKEN_LENGTH:
        raise BadSettings(reason=f"{path} holds no admin token; remove the file, and the next start makes a new one")
    return token
