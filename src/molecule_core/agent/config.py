"""What `molecule mcp` is told by its environment: its seats, its wishes, where it keeps its state. docs/agents.md lists
every variable.

Above: main. Below: nothing but the environment and the token files it names.
"""

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
"""Where containers have the configuration of their only agent, if that is there and may be written."""
OWN_TOKEN_FILE = ".auth_token"
"""In the state folder: where containers put the token of their only seat."""
# A token has 58 characters; what is far longer is no token.
_MAX_TOKEN_LENGTH = 4096


class ConfigurationError(Exception):
    """Something in the environment cannot be used; the text is one line that says what, and holds no secret."""


class WorkspaceConfig(Struct, frozen=True, kw_only=True):
    """One workspace to sit in. `token_file`: where the token was read, and is read again after it was refused."""

    id: str
    url: str
    token: str
    token_file: Path | None = None

    def __repr__(self) -> str:
        return f"SeatConfig({self.id}, {self.url})"


Seconds = Annotated[float, Meta(ge=0.01, le=86_400)]
Count = Annotated[int, Meta(ge=1)]


class AgentSettings(Struct, frozen=True, kw_only=True):
    """What a person may set: `MOLECULE_MCP_<NAME>` each."""

    channel: Literal["auto", "on", "off"] = "auto"
    """Push into the host: by what it says of itself in the handshake, always, or never."""
    channel_delay_seconds: Annotated[float, Meta(ge=0, le=60)] = 1.0
    """After `initialized`: what comes before the host listens is lost without a word."""
    repush_seconds: Seconds = 60
    """A pushed message that no tool call has named is pushed again after so long, then after twice as long."""
    repush_most_seconds: Seconds = 3600
    heartbeat_seconds: Seconds = 20
    disable_heartbeat: bool = False
    disable_inbox: bool = False
    hold_seconds: Annotated[int, Meta(ge=1, le=25)] = 25
    """How long the server holds a question for mail."""
    lease_seconds: Annotated[int, Meta(ge=1, le=3600)] = 120
    """Mail that was on its way when the network broke comes after so long; mail that is held is taken anew as often."""
    inbox_messages: Annotated[int, Meta(ge=1, le=10_000)] = 200
    """Of one workspace, unread; beyond it nothing more is taken from the server."""
    first_look_seconds: Annotated[float, Meta(ge=0, le=60)] = 5
    """A tool that shows mail waits at most so long until each seat was looked at for the first time."""
    follow_seconds: Seconds = 2
    """How often a process looks whether the one that reads the inbox is gone."""
    retry_seconds: Seconds = 1
    retry_most_seconds: Seconds = 60
    start_seconds: Annotated[float, Meta(ge=0, le=60)] = 2
    """The seats are taken when the host has said `initialize`, or after so long without a word of it."""
    line_bytes: Count = 4 << 20
    """One line of standard input; a longer one is left out."""
    calls: Count = 64
    """Calls of tools that run at once."""
    poll_timeout_secs: Annotated[float, Meta(ge=0, le=60)] = 2
    """What the instructions tell a model to wait for mail at the start of a turn; 0: push only."""
    permissions: str = "auto"
    """Relay of the host's questions for permission, where the channel is offered: as the only workspace, as the one
    whose id stands here, or `off`. An agent of several workspaces relays none unless one is named."""
    verbose: bool = False


class Configuration(Struct, frozen=True, kw_only=True):
    """Everything. `single`: the list of seats is not set, so that nothing says which seat is meant."""

    workspaces: tuple[WorkspaceConfig, ...]
    single: bool
    settings: AgentSettings
    state: Path
    name: str = ""
    description: str = ""
    skills: tuple[str, ...] = ()


def read_configuration(environ: Mapping[str, str]) -> Configuration:
    """What the environment says. Raises BadConfiguration."""
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
    """What the agent says of itself. Raises BadConfiguration if it is no text: no server would take it."""
    text = environ.get(name, "").strip()
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(f"{name} is no text in UTF-8") from None
    return text


def _check_relay(configuration: Configuration) -> Configuration:
    """The same. Raises BadConfiguration if questions are to be relayed as a workspace that is none of its own."""
    if configuration.settings.permissions not in ("auto", "off") and relay_workspace(configuration) is None:
        known_ids = ", ".join(workspace.id for workspace in configuration.workspaces)
        raise ConfigurationError(f"{_PREFIX}PERMISSIONS must be auto, off, or one of your workspaces: {known_ids}")
    return configuration


def relay_workspace(configuration: Configuration) -> WorkspaceConfig | None:
    """The workspace as which the host's questions for permission are relayed; None: they are not."""
    setting, workspaces = configuration.settings.permissions, configuration.workspaces
    if setting == "auto":
        return workspaces[0] if len(workspaces) == 1 else None
    return next((workspace for workspace in workspaces if workspace.id.lower() == setting), None)


def select_workspace(configuration: Configuration, workspace_id: str | None) -> Configuration:
    """The same with one of its seats; None: with all of them. Raises BadConfiguration."""
    if workspace_id is None:
        return configuration
    workspaces = tuple(workspace for workspace in configuration.workspaces if workspace.id == workspace_id)
    if not workspaces:
        known_ids = ", ".join(workspace.id for workspace in configuration.workspaces)
        raise ConfigurationError(f"workspace {workspace_id!r} is none of yours; yours: {known_ids}")
    return msgspec.structs.replace(configuration, workspaces=workspaces)


# -- seats -------------------------------------------------------------------------------------------------------------


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
        raise ConfigurationError(f'{where} is not an object; each entry is {{"id": "...", "token": "..."}}')
    id_ = _check_id(_text_field(entry, "id"), f"{where}: id")
    file = _parse_path(_text_field(entry, "token_file"))
    given = _text_field(entry, "token")
    token = _check_token(given, f"{where}: token") if given or file is None else read_token(file)
    url = _text_field(entry, "platform_url") or environ.get(_URL_VARIABLE, "")
    return WorkspaceConfig(
        id=id_, url=_check_url(url, f"{where}: platform_url"), token=token, token_file=None if given else file
    )


def _text_field(entry: dict[Any, Any], name: str) -> str:
    value = entry.get(name)
    return value.strip() if isinstance(value, str) else ""


def _single_workspace(environ: Mapping[str, str], state: Path) -> WorkspaceConfig:
    id_ = _check_id(environ.get(_ID_VARIABLE, "").strip(), _ID_VARIABLE)
    url = _check_url(environ.get(_URL_VARIABLE, ""), _URL_VARIABLE)
    if given := environ.get(_TOKEN_VARIABLE, "").strip():
        return WorkspaceConfig(id=id_, url=url, token=_check_token(given, _TOKEN_VARIABLE))
    file = _parse_path(environ.get(_TOKEN_FILE_VARIABLE, "").strip())
    if file is None and (state / OWN_TOKEN_FILE).is_file():
        file = state / OWN_TOKEN_FILE
    if file is None:
        raise ConfigurationError(
            f"{_TOKEN_VARIABLE} is missing; set it, or {_TOKEN_FILE_VARIABLE} to a file that holds the token"
        )
    return WorkspaceConfig(id=id_, url=url, token=read_token(file), token_file=file)


def _check_id(text: str, what: str) -> str:
    if not text:
        raise ConfigurationError(f"{what} is missing; it is the id of the workspace to sit in")
    if not _ID.fullmatch(text):
        raise ConfigurationError(f"{what} is no workspace id: it has other characters than A-Z a-z 0-9 . _ : -")
    return text


def _check_token(text: str, what: str) -> str:
    if not text:
        raise ConfigurationError(f"{what} is missing; it is the token of that workspace")
    if not (text.isascii() and text.isprintable() and " " not in text and len(text) <= _MAX_TOKEN_LENGTH):
        raise ConfigurationError(f"{what} is no token: it has characters that no token has")
    return text


def _check_url(text: str, what: str) -> str:
    if not text.strip():
        raise ConfigurationError(
            f"{what} is missing; set {_URL_VARIABLE} to the server's address, such as https://host"
        )
    url = parse_server_url(text)
    if url is None:
        raise ConfigurationError(f"{what} is no address of a server; {URL_EXAMPLES}")
    return url


def _parse_path(text: str) -> Path | None:
    return Path(text).expanduser() if text else None


def read_token(file: Path) -> str:
    """The token that a file holds. Raises BadConfiguration."""
    try:
        text = file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigurationError(f"the token file {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"the token file {file} holds no text") from None
    return _check_token(text, f"the token in {file}")


# -- wishes and state --------------------------------------------------------------------------------------------------


def read_settings(environ: Mapping[str, str], prefix: str, kind: type[T]) -> T:
    """What the variables of a prefix wish for. Raises BadConfiguration."""
    given: dict[str, str] = {}
    for name, text in environ.items():
        if name.startswith(prefix) and text.strip():
            given[name.removeprefix(prefix).lower()] = text.strip().lower()
    for name in given:
        if name not in kind.__struct_fields__:
            raise ConfigurationError(f"there is no setting {prefix}{name.upper()}; docs/agents.md lists them all")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        problem, _, field_path = str(error).partition(" - at `$.")
        raise ConfigurationError(f"{prefix}{field_path.rstrip('`').upper()}: {problem}") from None


def ensure_state_folder(environ: Mapping[str, str]) -> Path:
    """Where cursors and locks lie, made if it is not there, closed to other people. Raises BadConfiguration."""
    named = environ.get("CONFIGS_DIR", "").strip()
    if named:
        folder = Path(named).expanduser()
    elif CONTAINER_FOLDER.is_dir() and os.access(CONTAINER_FOLDER, os.W_OK):
        folder = CONTAINER_FOLDER
    else:
        folder = Path("~/.molecule-workspace").expanduser()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"the state folder {folder} cannot be made: {error.strerror}") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigurationError(f"the state folder {folder} is not writable; set CONFIGS_DIR to one that is")
    return folder
