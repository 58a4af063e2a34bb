"""Shared options that become settings, and the tokens of commands."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from molecule_core.common.errors import CommandFailed
from molecule_core.common.logs import register_secret
from molecule_core.common.net.server_url import URL_EXAMPLES, parse_server_url
from molecule_core.common.settings import Settings, configured_admin_token, environment, load_settings
from molecule_core.server.state_folder import ADMIN_TOKEN_FILE, ensure_admin_token

F = TypeVar("F", bound=Callable[..., Any])
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
