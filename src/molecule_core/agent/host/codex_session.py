"""The session of Codex that this process belongs to, reached by the control socket of its app-server.

A TUI of Codex runs its threads in an app-server that it shares with others of the same user. The thread is the one
that this process was started for: Codex names it in calls of tools; before the first call, it is found by its folder.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from molecule_core.common.version import VERSION

_SOCKET = Path("app-server-control") / "app-server-control.sock"
_SECONDS = 10.0
_MAX_THREADS = 100
_MAX_MESSAGE = 64 << 20


def codex_socket(environ: Mapping[str, str]) -> Path:
    """Return where the app-server of this user listens."""
    return Path(environ.get("CODEX_HOME") or "~/.codex").expanduser() / _SOCKET


class CodexSession:
    """The thread of this process. `thread_id`: returns it if a call has named it, else an empty text."""

    def __init__(self, socket: Path, folder: Path, thread_id: Callable[[], str]) -> None:
        self._socket = socket
        self._folder = folder
        self._thread_id = thread_id

    async def send_prompt(self, activity_id: str, text: str) -> bool:
        """Start a turn of the idle thread. Raises OSError, ValueError."""
        if not self._socket.exists():
            return False
        try:
            async with asyncio.timeout(_SECONDS), _connect(self._socket) as connection:
                thread = await self._find_thread(connection)
                if thread is None or thread.get("status", {}).get("type") != "idle":
                    return False
                turn = {"threadId": thread["id"], "input": [{"type": "text", "text": text}]}
                await connection.call("turn/start", {**turn, "clientUserMessageId": activity_id})
                return True
        except TimeoutError:
            raise OSError("the app-server of Codex does not answer") from None

    async def _find_thread(self, connection: "_ControlConnection") -> dict[str, Any] | None:
        """Return the thread; of several in the folder the first. Sub-agents and side threads are not meant."""
        known = self._thread_id()
        ids = [known] if known else (await connection.call("thread/loaded/list", {})).get("data", [])
        for thread_id in ids[:_MAX_THREADS]:
            thread = (await connection.call("thread/read", {"threadId": thread_id}))["thread"]
            is_root = thread.get("parentThreadId") is None and not thread.get("ephemeral")
            if known or (is_root and Path(str(thread.get("cwd"))) == self._folder):
                return dict(thread)
        return None


class _ControlConnection:
    """Requests over one connection. Notifications are dropped."""

    def __init__(self, websocket: Any) -> None:
        self._websocket = websocket
        self._numbers = itertools.count(1)

    async def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request. Raises ValueError if it is refused."""
        number = next(self._numbers)
        await self._websocket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(await self._websocket.recv())
            if message.get("id") == number and "method" not in message:
                if "error" in message:
                    raise ValueError(f"{method}: {message['error'].get('message')}")
                return dict(message["result"])

    async def notify(self, method: str) -> None:
        """Send a notification."""
        await self._websocket.send(json.dumps({"method": method}))


@asynccontextmanager
async def _connect(socket: Path) -> AsyncIterator[_ControlConnection]:
    """Connect to the app-server. Raises OSError."""
    from websockets.asyncio.client import unix_connect  # only agents in Codex need it
    from websockets.exceptions import WebSocketException

    try:
        async with unix_connect(_address_of(socket), uri="ws://localhost/", max_size=_MAX_MESSAGE) as websocket:
            connection = _ControlConnection(websocket)
            client = {"name": "molecule", "title": "Molecule", "version": VERSION}
            await connection.call("initialize", {"clientInfo": client, "capabilities": {"experimentalApi": True}})
            await connection.notify("initialized")
            yield connection
    except WebSocketException as error:
        raise OSError(f"the app-server of Codex closed the connection: {error}") from None


def _address_of(socket: Path) -> str:
    """Return the path that a link of Codex leads to: its own path may be too long for an address."""
    return str(socket.resolve())
