"""The session of opencode that this process belongs to, reached by the HTTP server of its TUI.

A TUI of opencode has such a server only if it was started with `--port N`: the port in its configuration is for other
commands. The server does not report which session is on the screen. So the session is the one that was used last since
this process has started; if there is none, a new one is created and shown.
"""

import asyncio
import base64
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common.clock import Clock

_log = logging.getLogger("molecule.agent")
_PASSWORD_VARIABLE, _USER_VARIABLE = "OPENCODE_SERVER_PASSWORD", "OPENCODE_SERVER_USERNAME"
_DEFAULT_USER = "opencode"
_REQUEST_SECONDS, _SECONDS = 10.0, 30.0
_MAX_SESSIONS = 100
_MILLISECOND = 1000
_UNAUTHORIZED = 401
# Without a screen: they serve others, or run one prompt.
_COMMANDS_WITHOUT_SCREEN = frozenset({"acp", "run", "serve", "web"})
_LOCAL_HOSTS = {
    "": "127.0.0.1",
    "127.0.0.1": "127.0.0.1",
    "localhost": "localhost",
    "0.0.0.0": "127.0.0.1",
    "::1": "[::1]",
    "::": "[::1]",
}
T = TypeVar("T")


class _Times(Struct, frozen=True):
    updated: float = 0
    archived: float | None = None


class _SessionRow(Struct, frozen=True):
    id: str
    directory: str
    parent_id: str | None = field(default=None, name="parentID")
    time: _Times = _Times()


class _Status(Struct, frozen=True):
    type: str = "idle"


class _Paths(Struct, frozen=True):
    directory: str


class OpencodeCommand(Struct, frozen=True):
    """What a TUI was started with. `session`: the session that it has opened; `continues`: whether it has opened the
    last one, or a copy."""

    url: str
    session: str = ""
    continues: bool = False


def find_command(pids: list[int], words_of: Callable[[int], list[str]]) -> OpencodeCommand | None:
    """Return what the nearest process of opencode was started with; None if it has no server, or none that this
    process may use."""
    for words in map(words_of, pids):
        if words and Path(words[0]).name.startswith("opencode"):
            return parse_command(words[1:])
    return None


def parse_command(arguments: list[str]) -> OpencodeCommand | None:
    """Read the arguments of opencode."""
    port = _option(arguments, "--port")
    host = _LOCAL_HOSTS.get(_option(arguments, "--hostname").lower())
    if not port.isdecimal() or not _COMMANDS_WITHOUT_SCREEN.isdisjoint(arguments):
        return None
    if not 0 < int(port) < 1 << 16:
        _log.warning("the port of opencode is not known. Start it with --port N, N from 1 to 65535, to be woken")
        return None
    if host is None:
        _log.warning("opencode listens on another address only. Start it with --hostname 127.0.0.1 to be woken")
        return None
    is_copied = "--fork" in arguments
    session = _option(arguments, "--session", "-s")
    continues = not {"-c", "--continue"}.isdisjoint(arguments) or (is_copied and bool(session))
    return OpencodeCommand(f"http://{host}:{port}", "" if is_copied else session, continues)


def _option(arguments: list[str], *names: str) -> str:
    """Return the value of an option that is written as two words or with `=`; the last one counts."""
    for index in range(len(arguments) - 1, -1, -1):
        name, equals, value = arguments[index].partition("=")
        if name in names:
            return value if equals else "".join(arguments[index + 1 : index + 2])
    return ""


class OpencodeSession:
    """The session of a TUI that was used last."""

    def __init__(self, command: OpencodeCommand, folder: Path, environ: Mapping[str, str], clock: Clock) -> None:
        self._command = command
        self._folder = folder.resolve()
        self._headers = _credentials(environ)
        self._started = clock.now() // _MILLISECOND

    async def send_prompt(self, activity_id: str, text: str) -> bool:
        """Start a turn of the idle session. Raises OSError, ValueError."""
        try:
            async with asyncio.timeout(_SECONDS), ApiClient(self._command.url, seconds=_REQUEST_SECONDS) as api:
                return await self._send(api, text)
        except ApiError as error:
            raise ValueError(_refusal_text(error)) from None
        except msgspec.ValidationError as error:
            raise ValueError(f"the server of opencode has another version: {error}") from None
        except (NoAnswerError, TimeoutError):
            raise OSError("the server of opencode does not answer") from None

    async def _send(self, api: ApiClient, text: str) -> bool:
        if not self._is_own_folder((await self._get(api, "/path", _Paths)).directory):
            raise ValueError(f"{self._command.url} is the server of opencode in another folder")
        sessions = await self._get(api, "/session", list[_SessionRow], roots="true", limit=_MAX_SESSIONS)
        meant = [each for each in sessions if self._is_meant(each)]
        session = max(meant, key=lambda each: each.time.updated).id if meant else await self._open_session(api)
        statuses = await self._get(api, "/session/status", dict[str, _Status])
        if statuses.get(session, _Status()).type != "idle":
            return False
        await self._post(api, f"/session/{session}/prompt_async", {"parts": [{"type": "text", "text": text}]})
        return True

    def _is_meant(self, session: _SessionRow) -> bool:
        """Return whether the TUI has the session open. Sub-agents and what was used before it started are not meant."""
        if session.parent_id or session.time.archived or not self._is_own_folder(session.directory):
            return False
        is_opened = self._command.continues or session.id == self._command.session
        return is_opened or session.time.updated >= self._started

    def _is_own_folder(self, folder: str) -> bool:
        return Path(folder).resolve() == self._folder

    async def _open_session(self, api: ApiClient) -> str:
        """Create a session and show it. What a person has half typed stays in the TUI's input."""
        session = msgspec.convert(await self._post(api, "/session", {}), _SessionRow).id
        await self._post(api, "/tui/select-session", {"sessionID": session})
        return session

    async def _get(self, api: ApiClient, path: str, kind: type[T], **query: Any) -> T:
        return msgspec.convert(await api.call("GET", path, query=query, headers=self._headers), kind)

    async def _post(self, api: ApiClient, path: str, body: Any) -> Any:
        return await api.call("POST", path, body=body, headers=self._headers)


def _credentials(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the header with the password of the server; opencode leaves the variable in our environment."""
    password = environ.get(_PASSWORD_VARIABLE, "")
    if not password:
        return {}
    pair = f"{environ.get(_USER_VARIABLE) or _DEFAULT_USER}:{password}"
    return {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _refusal_text(error: ApiError) -> str:
    if error.status == _UNAUTHORIZED:
        return f"the server of opencode refuses the password. Set {_PASSWORD_VARIABLE} for opencode itself"
    return f"the server of opencode answers with status {error.status}"
