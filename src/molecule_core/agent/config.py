"""Reads the environment of `molecule mcp`: workspaces, settings, state folder.

docs/reference/configuration.md lists every variable."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from molecule_core.common.net.server_url import URL_EXAMPLES, parse_server_url

T = TypeVar("T", bound=Struct)
_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_WORKSPACES_VARIABLE, _ID_VARIABLE, _TOKEN_VARIABLE = "MOLECULE_WORKSPACES", "WORKSPACE_ID", "MOLECULE_WORKSPACE_TOKEN"
_TOKEN_FILE_VARIABLE, _URL_VARIABLE = "MOLECULE_WORKSPACE_TOKEN_FILE", "PLATFORM_URL"
_PREFIX = "MOLECULE_MCP_"
CONTAINER_FOLDER = Path("/configs")
"""Configuration folder of a container with a single agent; used if it exists and is writable."""
OWN_TOKEN_FILE = ".auth_token"
"""File in the state folder where containers put the token of their only workspace."""
# A token has 58 characters; the limit leaves a wide margin.
_MAX_TOKEN_LENGTH = 4096


class ConfigurationError(Exception):
    """A value in the environment that cannot be used.

    The text is one line that names the problem and contains no secret.
    """


class WorkspaceConfig(Struct, frozen=True, kw_only=True):
    """One workspace of the agent.

    `token_file`: where the token came from; it is read again after the token was rejected.
    """

    id: str
    url: str
    token: str
    token_file: Path | None = None

    def __repr__(self) -> str:
        return f"SeatConfig({self.id}, {self.url})"


Seconds = Annotated[float, Meta(ge=0.01, le=86_400)]
Count = Annotated[int, Meta(ge=1)]


class AgentSettings(Struct, frozen=True, kw_only=True):
    """Settings of the agent; each is the variable `MOLECULE_MCP_<NAME>`."""

    channel: Literal["auto", "on", "off"] = "auto"
    """Push into the host: if its name in the handshake is known, always, or never."""
    channel_delay_seconds: Annotated[float, Meta(ge=0, le=60)] = 1.0
    """Delay after `initialized`: the host silently drops what arrives before it listens."""
    repush_seconds: Seconds = 60
    """A pushed message that no tool call has named is pushed again after this delay, which doubles each time."""
    repush_most_seconds: Seconds = 3600
    """Longest delay between two pushes; also the delay after a tool has returned the message."""
    heartbeat_seconds: Seconds = 20
    """Interval of heartbeats, varied by up to a quarter."""
    disable_heartbeat: bool = False
    """Whether no heartbeats are sent."""
    disable_inbox: bool = False
    """Whether no messages are read."""
    hold_seconds: Annotated[int, Meta(ge=1, le=25)] = 25
    """How long the server holds a long-poll."""
    lease_seconds: Annotated[int, Meta(ge=1, le=3600)] = 120
    """Lease of claimed messages.

    A batch lost in the network comes again after it; held messages are renewed as often.
    """
    inbox_messages: Annotated[int, Meta(ge=1, le=10_000)] = 200
    """Unread messages kept per workspace; beyond this limit nothing more is claimed."""
    first_look_seconds: Annotated[float, Meta(ge=0, le=60)] = 5
    """How long a tool that lists messages waits for the first poll of each workspace."""
    follow_seconds: Seconds = 2
    """How often a process that does not lead checks whether the leader has gone."""
    retry_seconds: Seconds = 1
    """Delay before a failed request to the server is repeated; it doubles each time, with jitter."""
    retry_most_seconds: Seconds = 60
    """Longest such delay."""
    live_seconds: Annotated[float, Meta(ge=0.01, le=60)] = 0.1
    """Least interval between two reports of what running turns do, to people who watch."""
    live_bytes: Count = 64 << 10
    """Text of one turn that waits to be reported while the server is away; the oldest is dropped."""
    start_seconds: Annotated[float, Meta(ge=0, le=60)] = 2
    """Workspaces are registered after the host's `initialize`, or after this delay without one."""
    line_bytes: Count = 4 << 20
    """Longest line accepted on standard input; a longer one is skipped."""
    calls: Count = 64
    """Tool calls that run at once."""
    poll_timeout_secs: Annotated[float, Meta(ge=0, le=60)] = 2
    """How long the instructions ask a model to wait for messages at the start of a turn; 0: push only."""
    instruction_length: Annotated[int, Meta(ge=0, le=1_000_000)] = 4096
    """Characters of the instructions that a host reads at its start: the convention, what to do when a delegation
    fails, the peers and the files of the parent, as far as they fit. Claude Code cuts at 4096."""
    context_seconds: Seconds = 300
    """How often the copy of the peers and of the parent's files is renewed, which the next start shows."""
    permissions: str = "auto"
    """Relay of the host's permission requests, where the channel is offered.

    `auto`: as the only workspace; a workspace id: as that one; `off`: no relay. An agent of several workspaces relays
    nothing unless one is named.
    """
    verbose: bool = False
    """Whether more is logged."""


class Configuration(Struct, frozen=True, kw_only=True):
    """Complete configuration.

    `single`: the list of workspaces is not set, so calls need not name a workspace.
    """

    workspaces: tuple[WorkspaceConfig, ...]
    single: bool
    settings: AgentSettings
    state: Path
    name: str = ""
    description: str = ""
    skills: tuple[str, ...] = ()


def read_configuration(environ: Mapping[str, str]) -> Configuration:
    """Read the configuration from the environment. Raises ConfigurationError."""
    state = ensure_state_folder(environ)
    listed = environ.get(_WORKSPACES_VARIABLE, "").strip()
    return _check_relay(
        Configuration(
            workspaces=_parse_workspaces(listed, environ) if listed else (_single_workspace(environ, state),),
            single=not listed,
            settings=read_settings(environ, _PREFIX, AgentSettings),
            state=state,
            name=_read_agent_text(environ, "MOLECULE_AGENT_NAME"),
            description=_read_agent_text(environ, "MOLECULE_AGENT_DESCRIPTION"),
            skills=tuple(filter(None, map(str.strip, _read_agent_text(environ, "MOLECULE_AGENT_SKILLS").split(",")))),
        )
    )


def _read_agent_text(environ: Mapping[str, str], name: str) -> str:
    """Read a text about the agent. Raises ConfigurationError if it is not valid UTF-8: no server would accept it."""
    text = environ.get(name, "").strip()
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(f"{name} must be text in UTF-8") from None
    return text


def _check_relay(configuration: Configuration) -> Configuration:
    """Return `configuration`. Raises ConfigurationError if the relay's workspace is not one of its own."""
    if configuration.settings.permissions not in ("auto", "off") and relay_workspace(configuration) is None:
        known_ids = ", ".join(workspace.id for workspace in configuration.workspaces)
        raise ConfigurationError(f"{_PREFIX}PERMISSIONS must be auto, off, or one of your workspaces: {known_ids}")
    return configuration


def relay_workspace(configuration: Configuration) -> WorkspaceConfig | None:
    """Return the workspace that permission requests are relayed as; None: they are not relayed."""
    setting, workspaces = configuration.settings.permissions, configuration.workspaces
    if setting == "auto":
        return workspaces[0] if len(workspaces) == 1 else None
    return next((workspace for workspace in workspaces if workspace.id.lower() == setting), None)


def select_workspace(configuration: Configuration, workspace_id: str | None) -> Configuration:
    """Return the configuration with one of its workspaces; None: with all. Raises ConfigurationError."""
    if workspace_id is None:
        return configuration
    workspaces = tuple(workspace for workspace in configuration.workspaces if workspace.id == workspace_id)
    if not workspaces:
        known_ids = ", ".join(workspace.id for workspace in configuration.workspaces)
        raise ConfigurationError(f"workspace {workspace_id!r} is not one of yours. Your workspaces: {known_ids}")
    return msgspec.structs.replace(configuration, workspaces=workspaces)


# -- workspaces --------------------------------------------------------------------------------------------------------


def _parse_workspaces(text: str, environ: Mapping[str, str]) -> tuple[WorkspaceConfig, ...]:
    try:
        entries = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise ConfigurationError(f"{_WORKSPACES_VARIABLE} is not JSON: {error}") from None
    if not isinstance(entries, list):
        raise ConfigurationError(f'{_WORKSPACES_VARIABLE} must be a JSON array: [{{"id": "...", "token": "..."}}, ...]')
    if not entries:
        raise ConfigurationError(
            f"{_WORKSPACES_VARIABLE} is an empty array; name at least one workspace, or do not set it"
        )
    workspaces: dict[str, WorkspaceConfig] = {}
    for number, entry in enumerate(entries):
        workspace = _parse_workspace(number, entry, environ)
        if workspace.id in workspaces:
            raise ConfigurationError(
                f"{_WORKSPACES_VARIABLE}[{number}] has the id {workspace.id}, which an entry before it has: duplicate"
            )
        workspaces[workspace.id] = workspace
    return tuple(workspaces.values())


def _parse_workspace(number: int, entry: Any, environ: Mapping[str, str]) -> WorkspaceConfig:
    where = f"{_WORKSPACES_VARIABLE}[{number}]"
    if not isinstance(entry, dict):
        raise ConfigurationError(f'{where} must be an object: {{"id": "...", "token": "..."}}')
    id_ = _check_id(_text_field(entry, "id"), f"{where}: id")
    file = _parse_path(_text_field(entry, "token_file"))
    inline_token = _text_field(entry, "token")
    token = _check_token(inline_token, f"{where}: token") if inline_token or file is None else read_token(file)
    url = _text_field(entry, "platform_url") or environ.get(_URL_VARIABLE, "")
    return WorkspaceConfig(
        id=id_, url=_check_url(url, f"{where}: platform_url"), token=token, token_file=None if inline_token else file
    )


def _text_field(entry: dict[Any, Any], name: str) -> str:
    value = entry.get(name)
    return value.strip() if isinstance(value, str) else ""


def _single_workspace(environ: Mapping[str, str], state: Path) -> WorkspaceConfig:
    id_ = _check_id(environ.get(_ID_VARIABLE, "").strip(), _ID_VARIABLE)
    url = _check_url(environ.get(_URL_VARIABLE, ""), _URL_VARIABLE)
    if token := environ.get(_TOKEN_VARIABLE, "").strip():
        return WorkspaceConfig(id=id_, url=url, token=_check_token(token, _TOKEN_VARIABLE))
    file = _parse_path(environ.get(_TOKEN_FILE_VARIABLE, "").strip())
    if file is None and (state / OWN_TOKEN_FILE).is_file():
        file = state / OWN_TOKEN_FILE
    if file is None:
        raise ConfigurationError(
            f"{_TOKEN_VARIABLE} is missing. Set it, or set {_TOKEN_FILE_VARIABLE} to a file that contains the token"
        )
    return WorkspaceConfig(id=id_, url=url, token=read_token(file), token_file=file)


def _check_id(text: str, label: str) -> str:
    if not text:
        raise ConfigurationError(f"{label} is missing. Set it to the id of the workspace")
    if not _ID.fullmatch(text):
        raise ConfigurationError(
            f"{label} is not a workspace id: it contains characters other than A-Z a-z 0-9 . _ : -"
        )
    return text


def _check_token(text: str, label: str) -> str:
    if not text:
        raise ConfigurationError(f"{label} is missing. Set it to the token of the workspace")
    if not (text.isascii() and text.isprintable() and " " not in text and len(text) <= _MAX_TOKEN_LENGTH):
        raise ConfigurationError(f"{label} is not a token: it contains characters that no token has")
    return text


def _check_url(text: str, label: str) -> str:
    if not text.strip():
        raise ConfigurationError(
            f"{label} is missing. Set {_URL_VARIABLE} to the address of the server, for example https://host"
        )
    url = parse_server_url(text)
    if url is None:
        raise ConfigurationError(f"{label} is not a server address. {URL_EXAMPLES}")
    return url


def _parse_path(text: str) -> Path | None:
    return Path(text).expanduser() if text else None


def read_token(file: Path) -> str:
    """Return the token in `file`. Raises ConfigurationError."""
    try:
        text = file.read_text(encoding="utf-8-sig").strip()
    except OSError as error:
        raise ConfigurationError(f"the token file {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"the token file {file} is empty") from None
    return _check_token(text, f"the token in {file}")


# -- settings and state ------------------------------------------------------------------------------------------------


def read_settings(environ: Mapping[str, str], prefix: str, kind: type[T]) -> T:
    """Read the variables that begin with `prefix` into `kind`. Raises ConfigurationError."""
    values: dict[str, str] = {}
    for name, text in environ.items():
        if name.startswith(prefix) and text.strip():
            values[name.removeprefix(prefix).lower()] = text.strip().lower()
    for name in values:
        if name not in kind.__struct_fields__:
            raise ConfigurationError(
                f"setting {prefix}{name.upper()} does not exist; docs/reference/configuration.md lists all settings"
            )
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        problem, _, field_path = str(error).partition(" - at `$.")
        raise ConfigurationError(f"{prefix}{field_path.rstrip('`').upper()}: {problem}") from None


def ensure_state_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of cursors and locks, created with access for the owner only. Raises ConfigurationError."""
    configured = environ.get("CONFIGS_DIR", "").strip()
    if configured:
        folder = Path(configured).expanduser()
    elif CONTAINER_FOLDER.is_dir() and os.access(CONTAINER_FOLDER, os.W_OK):
        folder = CONTAINER_FOLDER
    else:
        folder = Path("~/.molecule-workspace").expanduser()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"the state folder {folder} cannot be created: {error.strerror}") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigurationError(f"the state folder {folder} is not writable. Set CONFIGS_DIR to a writable folder")
    return folder
