"""Settings: defaults < settings file (TOML) < environment < flags."""

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

# A host or a folder of sockets, and a port; several stand behind each other with commas.
_HOST_AND_PORT = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(:[0-9]*)?")


class Settings(Struct, frozen=True, kw_only=True):
    """What an operator can set. `MOLECULE_<NAME>` in the environment sets each; limits are `MOLECULE_LIMIT_<NAME>`."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8080
    state_dir: str = "~/.molecule"
    database: str = ""
    """`postgresql://...`; empty: SQLite in the state folder."""
    nats: str = ""
    """`nats://...`; empty: processes that share a PostgreSQL wake each other through it."""
    files_dir: str = ""
    """Where files are kept; empty: `files` in the state folder. Servers that share a database share this folder too."""
    public_url: str = ""
    """How agents and people reach the server; empty: its own host and port."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names it answers for, beside its own and those of loopback."""
    push_networks: tuple[str, ...] = ()
    """Networks (`10.20.0.0/16`) that urls of agents may lead to beside public addresses, over http too."""
    metrics_token: str = ""
    """Opens /metrics and nothing else; empty: only the admin token opens it."""
    otel_endpoint: str = ""
    """Where spans go (OTLP over HTTP); empty: none are made, unless OTEL_EXPORTER_OTLP_ENDPOINT names a place."""
    push_instructions_enabled: bool = False
    """Whether each delivery tells its agent how to answer. Also PUSH_INSTRUCTIONS_ENABLED in the environment."""
    instruction_shape: Literal["json", "xml", "both"] = "both"
    """How they are told, where a workspace says nothing else: a member for those who ask for it, a block in the text
    for those who do not, or both."""
    instruction_adaptive: bool = False
    """Whether an agent that answers as it should is told less with each message."""
    delegation_ledger_write: bool = False
    """Whether each delegation that has ended leaves a row for analysis (table delegation_history). Nothing else depends
    on it. Also DELEGATION_LEDGER_WRITE in the environment."""
    access_log: bool = False
    """Whether each request is logged, without its query."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"
    limits: Limits = field(default_factory=Limits)

    @property
    def state_folder(self) -> Path:
        """The state folder."""
        return Path(self.state_dir).expanduser()

    @property
    def files_folder(self) -> Path:
        """The folder of the files."""
        return Path(self.files_dir).expanduser() if self.files_dir else self.state_folder / "files"

    @property
    def url(self) -> str:
        """The address that agents and people are told."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.public_url.rstrip("/") or f"http://{host}:{self.port}"

    @property
    def cookie_name(self) -> str:
        """The name of the session cookie. Browsers share cookies between the ports of a host, so it holds the port that
        they see: processes behind one address share their sessions."""
        return "__Host-molecule" if self.url.startswith("https:") else f"molecule_{_port_of(self.url) or self.port}"


def _port_of(url: str) -> str:
    """The port that stands in an address; empty if none does."""
    port = url.partition("://")[2].partition("/")[0].rpartition(":")[2]
    return port if port.isascii() and port.isdigit() else ""


LIST_SETTINGS = ("allowed_hosts", "push_networks")
"""The settings that hold several values; in the environment commas stand between them."""
UNPREFIXED_SETTINGS = ("push_instructions_enabled", "delegation_ledger_write")
"""The settings that deployments of the original name without `MOLECULE_`; that name counts too."""


def load_settings(
    environ: Mapping[str, str], flags: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> Settings:
    """The settings in force. `usual`: what counts instead of the defaults. Raises BadSettings, which names the one that
    is wrong."""
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
    import tomllib  # few servers have such a file

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
    """Whether the driver can read the address of a database. Where it cannot, it repeats the piece that it does not
    understand, and that may be one of the password."""
    from urllib.parse import parse_qsl, urlsplit  # few servers have a database elsewhere

    try:
        address = urlsplit(database)
        parse_qsl(address.query, strict_parsing=bool(address.query))
    except ValueError:
        return False
    hosts = address.netloc.rpartition("@")[2].split(",")
    is_plain = address.scheme in ("postgresql", "postgres") and not address.fragment
    return is_plain and all(_HOST_AND_PORT.fullmatch(each) for each in hosts)


def configured_admin_token(environ: Mapping[str, str]) -> str:
    """An admin token that the operator chose; empty if none."""
    return environ.get("MOLECULE_ADMIN_TOKEN") or environ.get("ADMIN_TOKEN") or ""


def environment() -> Mapping[str, str]:
    """The process environment."""
    return os.environ
