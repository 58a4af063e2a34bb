"""Settings of a server: defaults < settings file (TOML) < environment < flags."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from molecule_core.common.errors import BadSettings
from molecule_core.common.limits import Limits
from molecule_core.common.net.ip_policy import NetPolicy
from molecule_core.common.tokens import MIN_ADMIN_TOKEN_LENGTH

# A host or a folder of sockets, and a port; several are separated by commas.
_HOST_AND_PORT = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(:[0-9]*)?")


class Settings(Struct, frozen=True, kw_only=True):
    """Settings of an operator.

    Each is set by `MOLECULE_<NAME>` in the environment; limits by `MOLECULE_LIMIT_<NAME>`."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8080
    state_dir: str = "~/.molecule"
    database: str = ""
    """`postgresql://...`; empty: SQLite in the state folder."""
    nats: str = ""
    """`nats://...`; empty: processes that share a PostgreSQL wake each other through it."""
    files_dir: str = ""
    """Folder of attached files; empty: `files` in the state folder.

    Servers that share a database must share this folder."""
    public_url: str = ""
    """Address at which agents and people reach the server; empty: its own host and port."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names that the server answers for, besides its own and loopback."""
    push_networks: tuple[str, ...] = ()
    """Networks (`10.20.0.0/16`) that agents' urls may lead to besides public addresses, also over http."""
    metrics_token: str = ""
    """Token for /metrics only; empty: /metrics requires the admin token."""
    otel_endpoint: str = ""
    """Endpoint for spans (OTLP over HTTP); empty: no spans, unless OTEL_EXPORTER_OTLP_ENDPOINT is set."""
    push_instructions_enabled: bool = False
    """Whether each delivery has instructions for its answer. Also PUSH_INSTRUCTIONS_ENABLED in the environment."""
    instruction_shape: Literal["json", "xml", "both"] = "both"
    """Default form of instructions.

    A JSON member for agents that ask for it, an XML block in the text for those that do not, or both."""
    instruction_adaptive: bool = False
    """Whether an agent that answers correctly gets shorter instructions."""
    delegation_ledger_write: bool = False
    """Whether each ended delegation is also written to the table delegation_history, for analysis only.

    Also DELEGATION_LEDGER_WRITE in the environment."""
    access_log: bool = False
    """Whether each request is logged, without its query."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"
    limits: Limits = field(default_factory=Limits)

    @property
    def state_folder(self) -> Path:
        """Return the state folder."""
        return Path(self.state_dir).expanduser()

    @property
    def files_folder(self) -> Path:
        """Return the folder of attached files."""
        return Path(self.files_dir).expanduser() if self.files_dir else self.state_folder / "files"

    @property
    def url(self) -> str:
        """Return the address for agents and people."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.public_url.rstrip("/") or f"http://{host}:{self.port}"

    @property
    def cookie_name(self) -> str:
        """Return the name of the session cookie.

        Browsers share cookies between the ports of a host, so the name holds the public port: processes behind one
        address share their sessions."""
        return "__Host-molecule" if self.url.startswith("https:") else f"molecule_{_port_of(self.url) or self.port}"


def _port_of(url: str) -> str:
    """Return the port of an address; empty if it has none."""
    port = url.partition("://")[2].partition("/")[0].rpartition(":")[2]
    return port if port.isascii() and port.isdigit() else ""


LIST_SETTINGS = ("allowed_hosts", "push_networks")
"""Settings with several values; in the environment they are separated by commas."""
UNPREFIXED_SETTINGS = ("push_instructions_enabled", "delegation_ledger_write")
"""Settings that the original system names without `MOLECULE_`; that name is accepted too."""


def load_settings(
    environ: Mapping[str, str], flags: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> Settings:
    """Build the settings.

    `defaults` replace the built-in defaults. Raises BadSettings, which names the invalid setting."""
    file = environ.get("MOLECULE_CONFIG", "")
    values: dict[str, Any] = {**(defaults or {}), **(_read_settings_file(Path(file).expanduser()) if file else {})}
    limits = values.pop("limits", {})
    if not isinstance(limits, dict):
        raise BadSettings(reason=f"limits must be a table of limits, not {limits!r}")
    for name in Settings.__struct_fields__:
        if (text := environ.get(f"MOLECULE_{name.upper()}")) and name != "limits":
            values[name] = tuple(filter(None, map(str.strip, text.split(",")))) if name in LIST_SETTINGS else text
    for name in UNPREFIXED_SETTINGS:
        if text := environ.get(name.upper()):
            values[name] = text
    for name in Limits.__struct_fields__:
        if text := environ.get(f"MOLECULE_LIMIT_{name.upper()}"):
            limits[name] = text
    _reject_unknown_limits(environ)
    values.update({name: value for name, value in flags.items() if value is not None})
    return _validate_settings(values, limits)


def _reject_unknown_limits(environ: Mapping[str, str]) -> None:
    prefix = "MOLECULE_LIMIT_"
    for name in environ:
        if name.startswith(prefix) and name.removeprefix(prefix).lower() not in Limits.__struct_fields__:
            raise BadSettings(reason=f"there is no limit {name}; docs/limits.md lists them all")


def _read_settings_file(path: Path) -> dict[str, Any]:
    import tomllib  # few servers have a settings file

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadSettings(reason=f"MOLECULE_CONFIG names {path}, which cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettings(reason=f"{path} is not TOML: {error}") from None


def _validate_settings(values: dict[str, Any], limits: dict[str, Any]) -> Settings:
    unknown = [f"limits.{name}" for name in limits if name not in Limits.__struct_fields__]
    unknown += [name for name in values if name not in Settings.__struct_fields__]
    if unknown:
        raise BadSettings(
            reason=f"there is no setting {unknown[0]}; docs/limits.md and `molecule serve --help` list them"
        )
    for name, value in limits.items():
        if isinstance(value, str) and not (value.isascii() and value.isdigit()):
            raise BadSettings(reason=f"Expected a whole number, got {value!r} - at `$.limits.{name}`")
    if 0 < len(str(values.get("metrics_token", ""))) < MIN_ADMIN_TOKEN_LENGTH:
        raise BadSettings(reason=f"metrics_token must have at least {MIN_ADMIN_TOKEN_LENGTH} characters")
    try:
        settings = msgspec.convert({**values, "limits": limits}, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise BadSettings(reason=str(error)) from None
    NetPolicy.from_networks(settings.push_networks)
    if settings.database and not _is_valid_database_url(settings.database):
        raise BadSettings(
            reason="database is no address such as postgresql://user@host:5432/name; write what is special to "
            "addresses in a password as %XX"
        )
    return settings


def _is_valid_database_url(database: str) -> bool:
    """Return whether the driver can parse the address of a database.

    The driver's error repeats the part that it cannot parse, which may be a part of the password."""
    from urllib.parse import parse_qsl, urlsplit  # only servers with a database need it

    try:
        address = urlsplit(database)
        parse_qsl(address.query, strict_parsing=bool(address.query))
    except ValueError:
        return False
    hosts = address.netloc.rpartition("@")[2].split(",")
    is_plain = address.scheme in ("postgresql", "postgres") and not address.fragment
    return is_plain and all(_HOST_AND_PORT.fullmatch(each) for each in hosts)


def configured_admin_token(environ: Mapping[str, str]) -> str:
    """Return the admin token that the operator configured; empty if none."""
    return environ.get("MOLECULE_ADMIN_TOKEN") or environ.get("ADMIN_TOKEN") or ""


def environment() -> Mapping[str, str]:
    """Return the process environment."""
    return os.environ
