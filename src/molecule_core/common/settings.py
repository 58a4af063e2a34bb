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
from molecule_core.common.net.trusted_proxies import TrustedProxies
from molecule_core.common.tokens import MIN_ADMIN_TOKEN_LENGTH
from molecule_core.common.validation import validation_error_text

# A host or a folder of sockets, and a port; several are separated by commas.
_HOST_AND_PORT = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(:[0-9]*)?")


# Scheme, host and port only: the well-known addresses of an issuer with a path would be outside of it.
_ISSUER = re.compile(r"(?P<scheme>https?)://(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
_LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")
_LOOPBACK_OF = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class Settings(Struct, frozen=True, kw_only=True):
    """Settings of an operator.

    Each is set by `MOLECULE_<NAME>` in the environment; limits by `MOLECULE_LIMIT_<NAME>`."""

    host: str = "127.0.0.1"
    """Address to listen on. Keep loopback behind a proxy on the same machine."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 8080
    """Port to listen on; 0: any free port."""
    state_dir: str = "~/.molecule"
    """Folder of the SQLite store, the admin token, and the copies made before migrations."""
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
    oauth_client_documents: bool = True
    """Whether an OAuth client may name itself by the https address of its metadata document, which the server reads.

    OAuth requires a `public_url` with https (or of this machine) and without a path."""
    oauth_dynamic_registration: bool = False
    """Whether OAuth clients may register themselves, without an owner of an organisation."""
    trusted_proxies: tuple[str, ...] = ("127.0.0.0/8", "::1")
    """Networks of proxies whose header X-Forwarded-For names the client. Default: this machine."""
    push_instructions_enabled: bool = True
    """Whether each delivery has instructions for its answer. Also PUSH_INSTRUCTIONS_ENABLED in the environment."""
    instruction_shape: Literal["json", "xml", "both"] = "both"
    """Default form of instructions.

    A JSON member for agents that ask for it, an XML block in the text for those that do not, or both."""
    instruction_adaptive: bool = False
    """Whether an agent that answers correctly gets shorter instructions."""
    delegation_ledger_write: bool = False
    """Whether each ended delegation is also written to the table delegation_history, for analysis only.

    Also DELEGATION_LEDGER_WRITE in the environment."""
    a2a_root_workspace: str = ""
    """Id of the workspace whose A2A card the host itself serves at /.well-known/agent-card.json; empty: none."""
    a2a_legacy_cards: bool = True
    """Whether A2A cards also have the members of A2A 0.3, for clients of that age."""
    a2a_card_key: str = ""
    """File of the private key (PEM, EC P-256) that signs A2A cards; empty: they are not signed."""
    access_log: bool = False
    """Whether each request is logged, without its query."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe records that are logged."""
    log_format: Literal["text", "json"] = "text"
    """Format of the log on standard error; `json`: one object per line."""
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
        named = _LOOPBACK_OF.get(self.host, self.host)  # "every address" is none to open
        host = f"[{named}]" if ":" in named else named
        return self.public_url.rstrip("/") or f"http://{host}:{self.port}"

    @property
    def oauth_issuer(self) -> str:
        """Return the issuer of OAuth tokens; empty if the public address cannot be one, then OAuth is off."""
        address = _ISSUER.fullmatch(self.public_url.rstrip("/"))
        if address is None or (address["scheme"] == "http" and address["host"] not in _LOOPBACK_HOSTS):
            return ""
        return address[0]

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


LIST_SETTINGS = ("allowed_hosts", "push_networks", "trusted_proxies")
"""Settings with several values; in the environment they are separated by commas."""
ADMIN_TOKEN_VARIABLE = "MOLECULE_ADMIN_TOKEN"
UNPREFIXED_SETTINGS = ("push_instructions_enabled", "delegation_ledger_write")
"""Settings that the original system names without `MOLECULE_`; that name is accepted too."""


_OTHER_PREFIXES = ("MOLECULE_LIMIT_", "MOLECULE_MCP_", "MOLECULE_BRIDGE_", "MOLECULE_AGENT_", "MOLECULE_WORKSPACE_")
_OTHER_VARIABLES = ("MOLECULE_CONFIG", "MOLECULE_TOKEN", "MOLECULE_ADMIN_TOKEN", "MOLECULE_URL", "MOLECULE_WORKSPACES")
"""Variables that are no settings of a server."""
# MOLECULE_PUBLIC_ULR is near MOLECULE_PUBLIC_URL; MOLECULE_FILE of Ansible's Molecule is near nothing.
_NEAR_NAME = 0.82
SECRET_SETTINGS = ("database", "nats", "metrics_token", "otel_endpoint")
"""Settings that may hold a password or are a secret."""


class SettingInForce(Struct, frozen=True):
    """A setting as a server uses it. `changed`: it differs from the default. `value`: "(set)" instead of a secret."""

    name: str
    value: Any
    changed: bool


def settings_in_force(settings: Settings) -> list[SettingInForce]:
    """Return all settings and limits of a server, without secrets."""
    default = Settings()
    found = []
    for name in Settings.__struct_fields__:
        if name != "limits":
            value, changed = getattr(settings, name), getattr(settings, name) != getattr(default, name)
            shown = "(set)" if name in SECRET_SETTINGS and value else value
            found.append(SettingInForce(name, shown, changed))
    for name in Limits.__struct_fields__:
        limit = getattr(settings.limits, name)
        found.append(SettingInForce(f"limits.{name}", limit, limit != getattr(default.limits, name)))
    return found


def load_settings(
    environ: Mapping[str, str], flags: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> Settings:
    """Build the settings.

    `defaults` replace the built-in defaults. Raises BadSettings, which names the invalid setting."""
    file = environ.get("MOLECULE_CONFIG", "")
    values: dict[str, Any] = {**(defaults or {}), **(_read_settings_file(Path(file).expanduser()) if file else {})}
    limits = values.pop("limits", {})
    if not isinstance(limits, dict):
        raise BadSettings(reason="limits must be a table of limits. Write them under [limits] in the settings file.")
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
    _reject_misspelled_settings(environ)
    values.update({name: value for name, value in flags.items() if value is not None})
    return _validate_settings(values, limits)


def _reject_unknown_limits(environ: Mapping[str, str]) -> None:
    prefix = "MOLECULE_LIMIT_"
    for name in environ:
        if name.startswith(prefix) and name.removeprefix(prefix).lower() not in Limits.__struct_fields__:
            raise BadSettings(reason=f"{name} is not a known limit. Use a name from docs/reference/limits.md.")


def _reject_misspelled_settings(environ: Mapping[str, str]) -> None:
    """Reject a variable whose name is nearly that of a setting. Other programs have variables of this prefix too."""
    from difflib import get_close_matches  # an agent's process reads no settings and starts faster without it

    known = [name for name in Settings.__struct_fields__ if name != "limits"]
    for name in environ:
        setting = name.removeprefix("MOLECULE_").lower()
        if setting == name.lower() or setting in known or name.startswith(_OTHER_PREFIXES) or name in _OTHER_VARIABLES:
            continue
        if near := get_close_matches(setting, known, 1, _NEAR_NAME):
            raise BadSettings(
                reason=f"{name} is not a known setting. Use MOLECULE_{near[0].upper()}, or remove {name}."
            )


def _read_settings_file(path: Path) -> dict[str, Any]:
    import tomllib  # few servers have a settings file

    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise BadSettings(
            reason=f"the settings file {path} cannot be read: {error.strerror}. Correct MOLECULE_CONFIG."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettings(reason=f"the settings file {path} is not TOML: {error}. Correct the file.") from None


def _validate_settings(values: dict[str, Any], limits: dict[str, Any]) -> Settings:
    unknown = [f"limits.{name}" for name in limits if name not in Limits.__struct_fields__]
    unknown += [name for name in values if name not in Settings.__struct_fields__]
    if unknown:
        raise BadSettings(
            reason=f"{unknown[0]} is not a known setting. Use a name from docs/reference/configuration.md."
        )
    for name, value in limits.items():
        if isinstance(value, str) and not (value.isascii() and value.isdigit()):
            raise BadSettings(reason=f"limits.{name} cannot be {value[:40]!r}. Use a whole number.")
    if 0 < len(str(values.get("metrics_token", ""))) < MIN_ADMIN_TOKEN_LENGTH:
        raise BadSettings(reason=f"metrics_token is too short. Use at least {MIN_ADMIN_TOKEN_LENGTH} characters.")
    given = {**values, "limits": limits}
    try:
        settings = msgspec.convert(given, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise BadSettings(reason=validation_error_text(error, value=given, shape=Settings)) from None
    NetPolicy.from_networks(settings.push_networks)
    TrustedProxies.from_networks(settings.trusted_proxies)
    if settings.database and not _is_valid_database_url(settings.database):
        raise BadSettings(
            reason="database is not a valid address. Use postgresql://user@host:5432/name, and write special "
            "characters "
            "of a password as %XX."
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
    return environ.get(ADMIN_TOKEN_VARIABLE) or environ.get("ADMIN_TOKEN") or ""


def environment() -> Mapping[str, str]:
    """Return the process environment."""
    return os.environ
