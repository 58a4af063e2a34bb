"""Shared options that become settings, and the state folder with its admin token."""

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
"""Folder of the demo's state, within the state folder."""
TOKEN_VARIABLE = "MOLECULE_TOKEN"
"""Variable with the token of an owner, for a server on another machine."""
BACKUP_STAMP = "last-backup"
"""File in the state folder whose modification time is that of the last backup."""


def state_options(command: F) -> F:
    """Add the options of commands that use a store."""
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
    """Add the options of commands that serve."""
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
    """Load the settings for these options. `defaults`: defaults of this command."""
    return load_settings(environment(), {name: value for name, value in flags.items() if value != ()}, defaults)


def server_address(value: str | None, option: str, settings: Settings) -> str:
    """Return the server address in an option, else that of the local server. Raises CommandFailed."""
    if not value:
        return settings.url
    url = parse_server_url(value)
    if url is None:
        raise CommandFailed(reason=f"{option} names no address of a server; {URL_EXAMPLES}")
    return url


def owner_token(settings: Settings) -> str | None:
    """Return the token in MOLECULE_TOKEN, else the local admin token, or None. Creates none."""
    if token := environment().get(TOKEN_VARIABLE, ""):
        register_secret(token)
        return token
    return ensure_admin_token(settings) if has_admin_token(settings) else None


def has_admin_token(settings: Settings) -> bool:
    """Return whether an admin token exists. A client must not create one, since the server would not know it."""
    return bool(configured_admin_token(environment())) or (settings.state_folder / ADMIN_TOKEN_FILE).exists()


def missing_token_reason(settings: Settings) -> str:
    """Return why there is no token, and what to do."""
    demo = settings.state_folder / DEMO_FOLDER
    hint = f"; the demo's is in {demo}: --state-dir {demo}" if (demo / ADMIN_TOKEN_FILE).exists() else ""
    return f"{settings.state_folder} holds no admin token{hint}"


def prepare_state_folder(settings: Settings) -> Path:
    """Create the state folder, private to its owner. Raises BadSettings."""
    folder = settings.state_folder
    try:
        # Parents are created private too: the demo's folder is inside the state folder.
        for each in (*reversed(folder.parents), folder):
            each.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise BadSettings(reason=f"the state folder {folder} cannot be made: {error.strerror}") from None
    return folder


def ensure_admin_token(settings: Settings) -> str:
    """Return the admin token: the configured one, else the one in the state folder, created if missing (mode 0600)."""
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
    """Return the token in a file. Raises BadSettings for an empty or truncated one, which would be easy to guess."""
    token = path.read_text(encoding="utf-8", errors="replace").strip()
    if len(token) < MIN_ADMIN_TOKEN_LENGTH:
        raise BadSettings(reason=f"{path} holds no admin token; remove the file, and the next start makes a new one")
    return token
