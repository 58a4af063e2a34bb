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

from molecule_core.ground.server_url import LOOK, server_url

T = TypeVar("T", bound=Struct)
_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_LIST, _ID_NAME, _TOKEN = "MOLECULE_WORKSPACES", "WORKSPACE_ID", "MOLECULE_WORKSPACE_TOKEN"
_TOKEN_FILE, _PLATFORM = "MOLECULE_WORKSPACE_TOKEN_FILE", "PLATFORM_URL"
_PREFIX = "MOLECULE_MCP_"
CONTAINER = Path("/configs")
"""Where containers have the configuration of their only agent, if that is there and may be written."""
OWN_TOKEN_FILE = ".auth_token"
"""In the state folder: where containers put the token of their only seat."""
# A token has 58 characters; what is far longer is no token.
_MOST_TOKEN = 4096


class BadConfiguration(Exception):
    """Something in the environment cannot be used; the text is one line that says what, and holds no secret."""


class SeatConfig(Struct, frozen=True, kw_only=True):
    """One workspace to sit in. `token_file`: where the token was read, and is read again after it was refused."""

    id: str
    url: str
    token: str
    token_file: Path | None = None

    def __repr__(self) -> str:
        return f"SeatConfig({self.id}, {self.url})"


Seconds = Annotated[float, Meta(ge=0.01, le=86_400)]
Count = Annotated[int, Meta(ge=1)]


class Wishes(Struct, frozen=True, kw_only=True):
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

    seats: tuple[SeatConfig, ...]
    single: bool
    wishes: Wishes
    state: Path
    name: str = ""
    description: str = ""
    skills: tuple[str, ...] = ()


def read_configuration(environ: Mapping[str, str]) -> Configuration:
    """What the environment says. Raises BadConfiguration."""
    state = state_folder(environ)
    listed = environ.get(_LIST, "").strip()
    return _checked(
        Configuration(
            seats=_listed(listed, environ) if listed else (_single(environ, state),),
            single=not listed,
            wishes=wishes_of(environ, _PREFIX, Wishes),
            state=state,
            name=_said(environ, "MOLECULE_AGENT_NAME"),
            description=_said(environ, "MOLECULE_AGENT_DESCRIPTION"),
            skills=tuple(filter(None, map(str.strip, _said(environ, "MOLECULE_AGENT_SKILLS").split(",")))),
        )
    )


def _said(environ: Mapping[str, str], name: str) -> str:
    """What the agent says of itself. Raises BadConfiguration if it is no text: no server would take it."""
    text = environ.get(name, "").strip()
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadConfiguration(f"{name} is no text in UTF-8") from None
    return text


def _checked(configuration: Configuration) -> Configuration:
    """The same. Raises BadConfiguration if questions are to be relayed as a workspace that is none of its own."""
    if configuration.wishes.permissions not in ("auto", "off") and relays_as(configuration) is None:
        yours = ", ".join(seat.id for seat in configuration.seats)
        raise BadConfiguration(f"{_PREFIX}PERMISSIONS must be auto, off, or one of your workspaces: {yours}")
    return configuration


def relays_as(configuration: Configuration) -> SeatConfig | None:
    """The workspace as which the host's questions for permission are relayed; None: they are not."""
    wish, seats = configuration.wishes.permissions, configuration.seats
    if wish == "auto":
        return seats[0] if len(seats) == 1 else None
    return next((seat for seat in seats if seat.id.lower() == wish), None)


def with_only(configuration: Configuration, workspace_id: str | None) -> Configuration:
    """The same with one of its seats; None: with all of them. Raises BadConfiguration."""
    if workspace_id is None:
        return configuration
    seats = tuple(seat for seat in configuration.seats if seat.id == workspace_id)
    if not seats:
        yours = ", ".join(seat.id for seat in configuration.seats)
        raise BadConfiguration(f"workspace {workspace_id!r} is none of yours; yours: {yours}")
    return msgspec.structs.replace(configuration, seats=seats)


# -- seats -------------------------------------------------------------------------------------------------------------


def _listed(text: str, environ: Mapping[str, str]) -> tuple[SeatConfig, ...]:
    try:
        entries = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise BadConfiguration(f"{_LIST} is not JSON: {error}") from None
    if not isinstance(entries, list):
        raise BadConfiguration(f'{_LIST} must be a JSON array: [{{"id": "...", "token": "..."}}, ...]')
    if not entries:
        raise BadConfiguration(f"{_LIST} is an empty array; name at least one workspace, or do not set it")
    seats: dict[str, SeatConfig] = {}
    for number, entry in enumerate(entries):
        seat = _entry(number, entry, environ)
        if seat.id in seats:
            raise BadConfiguration(f"{_LIST}[{number}] has the id {seat.id}, which an entry before it has: duplicate")
        seats[seat.id] = seat
    return tuple(seats.values())


def _entry(number: int, entry: Any, environ: Mapping[str, str]) -> SeatConfig:
    where = f"{_LIST}[{number}]"
    if not isinstance(entry, dict):
        raise BadConfiguration(f'{where} is not an object; each entry is {{"id": "...", "token": "..."}}')
    id_ = _id(_text(entry, "id"), f"{where}: id")
    file = _path(_text(entry, "token_file"))
    given = _text(entry, "token")
    token = _token(given, f"{where}: token") if given or file is None else read_token(file)
    url = _text(entry, "platform_url") or environ.get(_PLATFORM, "")
    return SeatConfig(id=id_, url=_url(url, f"{where}: platform_url"), token=token, token_file=None if given else file)


def _text(entry: dict[Any, Any], name: str) -> str:
    value = entry.get(name)
    return value.strip() if isinstance(value, str) else ""


def _single(environ: Mapping[str, str], state: Path) -> SeatConfig:
    id_ = _id(environ.get(_ID_NAME, "").strip(), _ID_NAME)
    url = _url(environ.get(_PLATFORM, ""), _PLATFORM)
    if given := environ.get(_TOKEN, "").strip():
        return SeatConfig(id=id_, url=url, token=_token(given, _TOKEN))
    file = _path(environ.get(_TOKEN_FILE, "").strip())
    if file is None and (state / OWN_TOKEN_FILE).is_file():
        file = state / OWN_TOKEN_FILE
    if file is None:
        raise BadConfiguration(f"{_TOKEN} is missing; set it, or {_TOKEN_FILE} to a file that holds the token")
    return SeatConfig(id=id_, url=url, token=read_token(file), token_file=file)


def _id(text: str, what: str) -> str:
    if not text:
        raise BadConfiguration(f"{what} is missing; it is the id of the workspace to sit in")
    if not _ID.fullmatch(text):
        raise BadConfiguration(f"{what} is no workspace id: it has other characters than A-Z a-z 0-9 . _ : -")
    return text


def _token(text: str, what: str) -> str:
    if not text:
        raise BadConfiguration(f"{what} is missing; it is the token of that workspace")
    if not (text.isascii() and text.isprintable() and " " not in text and len(text) <= _MOST_TOKEN):
        raise BadConfiguration(f"{what} is no token: it has characters that no token has")
    return text


def _url(text: str, what: str) -> str:
    if not text.strip():
        raise BadConfiguration(f"{what} is missing; set {_PLATFORM} to the server's address, such as https://host")
    url = server_url(text)
    if url is None:
        raise BadConfiguration(f"{what} is no address of a server; {LOOK}")
    return url


def _path(text: str) -> Path | None:
    return Path(text).expanduser() if text else None


def read_token(file: Path) -> str:
    """The token that a file holds. Raises BadConfiguration."""
    try:
        text = file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise BadConfiguration(f"the token file {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadConfiguration(f"the token file {file} holds no text") from None
    return _token(text, f"the token in {file}")


# -- wishes and state --------------------------------------------------------------------------------------------------


def wishes_of(environ: Mapping[str, str], prefix: str, kind: type[T]) -> T:
    """What the variables of a prefix wish for. Raises BadConfiguration."""
    given: dict[str, str] = {}
    for name, text in environ.items():
        if name.startswith(prefix) and text.strip():
            given[name.removeprefix(prefix).lower()] = text.strip().lower()
    for name in given:
        if name not in kind.__struct_fields__:
            raise BadConfiguration(f"there is no setting {prefix}{name.upper()}; docs/agents.md lists them all")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        said, _, place = str(error).partition(" - at `$.")
        raise BadConfiguration(f"{prefix}{place.rstrip('`').upper()}: {said}") from None


def state_folder(environ: Mapping[str, str]) -> Path:
    """Where cursors and locks lie, made if it is not there, closed to other people. Raises BadConfiguration."""
    named = environ.get("CONFIGS_DIR", "").strip()
    if named:
        folder = Path(named).expanduser()
    elif CONTAINER.is_dir() and os.access(CONTAINER, os.W_OK):
        folder = CONTAINER
    else:
        folder = Path("~/.molecule-workspace").expanduser()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadConfiguration(f"the state folder {folder} cannot be made: {error.strerror}") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadConfiguration(f"the state folder {folder} is not writable; set CONFIGS_DIR to one that is")
    return folder
