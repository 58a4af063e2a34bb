"""Shared options that become settings, and the tokens of commands."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click
from msgspec.structs import replace

from molecule_core.common.errors import CommandFailed
from molecule_core.common.logs import register_secret
from molecule_core.common.net.server_url import URL_EXAMPLES, parse_server_url
from molecule_core.common.settings import Settings, configured_admin_token, environment, load_settings
from molecule_core.common.state_files import ADMIN_TOKEN_FILE
from molecule_core.server.server_record import read_server_record
from molecule_core.server.state_folder import ensure_admin_token

F = TypeVar("F", bound=Callable[..., Any])
_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
DEMO_FOLDER = "demo"
"""Folder of the demo's state, within the state folder."""
SERVER_OPTION, SERVER_VARIABLE = "--server", "MOLECULE_URL"
TOKEN_VARIABLE = "MOLECULE_TOKEN"
"""Variable with the token of an owner, for a server on another machine."""


def state_options(command: F) -> F:
    """Add the options of commands that use a store."""
    for option in (
        click.option("--state-dir", help="Folder of the store, the admin token and files.  [default: ~/.molecule]"),
        click.option(
            "--database",
            help="Address of a PostgreSQL database (postgresql://...), instead of SQLite in the state folder. "
            "Set the password in MOLECULE_DATABASE or ~/.pgpass, not on the command line.",
        ),
    ):
        command = option(command)
    return command


def serve_options(command: F) -> F:
    """Add the options of commands that serve."""
    for option in (
        click.option(
            "--allowed-host",
            "allowed_hosts",
            multiple=True,
            help="Additional host name under which the server answers requests. Can be repeated.",
        ),
        click.option(
            "--push-network",
            "push_networks",
            multiple=True,
            help="Network, such as 10.20.0.0/16, to which messages may be pushed, in addition to public addresses. "
            "Can be repeated.",
        ),
        click.option("--public-url", help="Address that agents and people use if the server is behind a proxy."),
        click.option("--log-format", type=click.Choice(["text", "json"]), help="Format of the log.  [default: text]"),
        click.option(
            "--log-level",
            type=click.Choice(["debug", "info", "warning", "error"]),
            help="Lowest level that is logged.  [default: info; for `up`: warning]",
        ),
        click.option("--port", type=int, help="Port on which the server listens.  [default: 8080]"),
        click.option("--host", help="Address on which the server listens.  [default: 127.0.0.1]"),
    ):
        command = option(command)
    return state_options(files_option(command))


def files_option(command: F) -> F:
    """Add the option of commands that use uploaded files."""
    return click.option(
        "--files-dir",
        help="Folder of uploaded files. Servers that share a database must share it too.  "
        "[default: files in the state folder]",
    )(command)


def load_cli_settings(defaults: dict[str, Any] | None = None, **flags: Any) -> Settings:
    """Load the settings for these options. `defaults`: defaults of this command."""
    given = {name: value for name, value in flags.items() if value != () and name != "server"}
    return load_settings(environment(), given, defaults)


def server_options(command: F) -> F:
    """Add the options of commands that call a server; `server_address` reads them."""
    for option in (
        click.option("--port", type=int, help="Port of the server on this machine.  [default: that of --state-dir]"),
        click.option(
            SERVER_OPTION,
            "--url",  # the name in earlier versions
            "server",
            envvar=SERVER_VARIABLE,
            help=f"Address of the server. Also {SERVER_VARIABLE} in the environment.  [default: that of --state-dir]",
        ),
    ):
        command = option(command)
    return state_options(command)


def server_address(flags: Mapping[str, Any], settings: Settings, *, for_agents: bool = False) -> str:
    """Return the address of the server: `--server`, else `--port` on this machine, else where the server of the state
    folder listens. `for_agents`: its public address. Raises CommandFailed."""
    if value := flags.get("server"):
        url = parse_server_url(value)
        if url is None:
            raise CommandFailed(reason=f"{SERVER_OPTION} is not a server address. {URL_EXAMPLES}")
        return url
    record = read_server_record(settings.state_folder)
    if record is None or flags.get("port") is not None:
        return settings.url
    return record.url if for_agents else record.address


def load_client_settings(**flags: Any) -> Settings:
    """Return the settings of a command that calls a server: those of the demo, if only the demo runs here.

    The demo has a state folder of its own, inside the usual one. A named server or port is never replaced."""
    settings = load_cli_settings(**flags)
    demo = settings.state_folder / DEMO_FOLDER
    is_named = flags.get("server") is not None or flags.get("port") is not None
    if is_named or settings.database or read_server_record(settings.state_folder) or not read_server_record(demo):
        return settings
    return replace(settings, state_dir=str(demo))


def owner_token(settings: Settings, address: str) -> str | None:
    """Return the token in MOLECULE_TOKEN, else the local admin token, or None. Creates none.

    The token in the state folder is only for its own server: another one at `address` must not get it."""
    if token := environment().get(TOKEN_VARIABLE, ""):
        register_secret(token)
        return token
    if not configured_admin_token(environment()) and not _is_own_server(settings, address):
        return None
    return ensure_admin_token(settings) if has_admin_token(settings) else None


def _is_own_server(settings: Settings, address: str) -> bool:
    """Return whether an address is on this machine, or the public address of the state folder's server."""
    record = read_server_record(settings.state_folder)
    return urlsplit(address).hostname in _LOOPBACK_HOSTS or address in (settings.url, record.url if record else "")


def has_admin_token(settings: Settings) -> bool:
    """Return whether an admin token exists. A client must not create one, since the server would not know it."""
    return bool(configured_admin_token(environment())) or (settings.state_folder / ADMIN_TOKEN_FILE).exists()


def missing_token_reason(settings: Settings) -> str:
    """Return why there is no token, and where the demo's is."""
    demo = settings.state_folder / DEMO_FOLDER
    hint = f" (the demo uses --state-dir {demo})" if (demo / ADMIN_TOKEN_FILE).exists() else ""
    return f"there is no admin token in {settings.state_folder}{hint}"
