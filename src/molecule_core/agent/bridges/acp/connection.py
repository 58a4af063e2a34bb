"""Requests to an ACP agent and what it sends, through the library `agent-client-protocol` (optional extra `acp`).

The library's models check what is sent. What comes is read leniently, since agents differ from the schema in details:
a line that is wrong in one member must not cost a turn.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from molecule_core.agent.acp_library import load_acp_library
from molecule_core.agent.bridges.line_process import LineProcess
from molecule_core.agent.bridges.process_runner import ProgramNotStartedError
from molecule_core.agent.bridges.sessions import DriverDied
from molecule_core.common.extras import install_advice
from molecule_core.common.version import VERSION

_INSTALL = install_advice("acp")

UpdateHandler = Callable[[str, dict[str, Any]], None]
"""Receives the updates of sessions, in order: session id, update."""
PermissionHandler = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Answers a request for a permission: session id, parameters."""


class AcpError(Exception):
    """An error response."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        self.code = code
        self.data = data
        super().__init__(message)


def load_library() -> Any:
    """Load the library. Raises ProgramNotStartedError with how to install it."""
    try:
        return load_acp_library()
    except ImportError:
        raise ProgramNotStartedError(
            f"ACP agents cannot run without the library agent-client-protocol, which is not installed. {_INSTALL}"
        ) from None


class AcpConnection:
    """A connection to one running agent. It is the library's transport: messages of a process, without faulty ones."""

    def __init__(
        self,
        process: LineProcess,
        on_update: UpdateHandler,
        on_permission: PermissionHandler,
        on_end: Callable[[str], None],
    ) -> None:
        self._library = load_library()
        self._process = process
        self._on_update = on_update
        self._on_permission = on_permission
        self._on_end = on_end
        self._received: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._open_requests: set[str | int] = set()
        """Ids of requests of the agent that are being answered; a second one with the same id is dropped."""
        self._connection: Any = None
        self.end_reason: str | None = None
        """Why the program ended; None while it runs."""

    async def start(self, *, ends_others: bool) -> None:
        """Start the program, as `LineProcess.start` does."""
        await self._process.start(self._handle_message, self._handle_end, ends_others=ends_others)
        self._connection = self._library.connection.Connection(self._handle_call, self)

    async def end(self) -> None:
        """End the program."""
        await self._process.close()
        if self._connection is not None:
            await self._connection.close()

    # -- requests ------------------------------------------------------------------------------------------------------

    async def initialize(self) -> dict[str, Any]:
        """Return the agent's response to the handshake."""
        schema = self._library.schema
        request = schema.InitializeRequest(
            protocol_version=self._library.PROTOCOL_VERSION,
            client_capabilities=schema.ClientCapabilities(),
            client_info=schema.Implementation(name="molecule", title="Molecule", version=VERSION),
        )
        return await self._request("initialize", request)

    async def authenticate(self, method_id: str) -> None:
        """Log the agent in with one of its methods."""
        await self._request("authenticate", self._library.schema.AuthenticateRequest(method_id=method_id))

    async def create_session(self, cwd: str, servers: list[dict[str, Any]]) -> str:
        """Return the id of a new session."""
        request = self._library.schema.NewSessionRequest(cwd=cwd, mcp_servers=servers)
        result = await self._request("session_new", request)
        if not isinstance(result.get("sessionId"), str) or not result["sessionId"]:
            raise DriverDied("it created a session without an id")
        return str(result["sessionId"])

    async def load_session(self, session_id: str, cwd: str, servers: list[dict[str, Any]]) -> None:
        """Load a session; the agent repeats its history as updates before it answers."""
        request = self._library.schema.LoadSessionRequest(session_id=session_id, cwd=cwd, mcp_servers=servers)
        await self._request("session_load", request)

    async def prompt(self, session_id: str, texts: list[str]) -> dict[str, Any]:
        """Run a turn; return the response at its end, when all its updates were handled."""
        blocks = [self._library.text_block(text) for text in texts]
        request = self._library.schema.PromptRequest(session_id=session_id, prompt=blocks)
        return await self._request("session_prompt", request)

    async def cancel(self, session_id: str) -> None:
        """Request the end of the running turn."""
        notification = self._library.schema.CancelNotification(session_id=session_id)
        try:
            await self._connection.send_notification(
                self._library.AGENT_METHODS["session_cancel"], self._encode(notification)
            )
        except ConnectionError:
            return  # the program has ended: so has the turn

    async def _request(self, name: str, request: Any) -> dict[str, Any]:
        """Return the result of a request. Raises AcpError, and DriverDied if the program ends."""
        try:
            result = await self._connection.send_request(self._library.AGENT_METHODS[name], self._encode(request))
        except self._library.RequestError as error:
            raise AcpError(error.code, str(error), error.data) from None
        except ConnectionError:
            raise DriverDied(self.end_reason or "its connection broke") from None
        return result if isinstance(result, dict) else {}

    def _encode(self, model: Any) -> Any:
        return model.model_dump(mode="json", by_alias=True, exclude_none=True)

    # -- the library's transport ---------------------------------------------------------------------------------------

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message, for the library."""
        if "method" not in message:
            self._open_requests.discard(message.get("id", ""))
        self._process.send(message)

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message, for the library; None at the end."""
        return await self._received.get()

    async def close(self) -> None:
        """Do nothing: `end` ends the process, before the library closes its connection."""

    def _handle_message(self, message: dict[str, Any]) -> None:
        """Pass a message on to the library, which trusts the types of some members."""
        if "id" in message:
            number = message["id"]
            if isinstance(number, bool) or not isinstance(number, (str, int)):
                return
            if "method" in message:
                if number in self._open_requests:
                    return
                self._open_requests.add(number)
            elif "error" in message:
                message = {**message, "error": _normalize_error(message["error"])}
        if isinstance(message.get("method", ""), str):
            self._received.put_nowait(message)

    def _handle_end(self, reason: str) -> None:
        self.end_reason = reason
        self._received.put_nowait(None)
        self._on_end(reason)

    async def _handle_call(self, method: str, params: Any, is_notification: bool) -> dict[str, Any]:
        """Handle what the agent sends. Runs without a pause up to the update, which keeps updates in order."""
        methods = self._library.CLIENT_METHODS
        fields = params if isinstance(params, dict) else {}
        session_id, update = str(fields.get("sessionId", "")), fields.get("update")
        if method == methods["session_update"]:
            if isinstance(update, dict):
                self._on_update(session_id, update)
            return {}
        if method == methods["session_request_permission"] and not is_notification:
            return await self._on_permission(session_id, fields)
        if is_notification:
            return {}
        raise self._library.RequestError.method_not_found(method)


def _normalize_error(error: object) -> dict[str, Any]:
    """Return an error response with the members of the standard, whatever the agent wrote."""
    if not isinstance(error, dict):
        return {"code": 0, "message": str(error)}
    code = error.get("code")
    is_number = isinstance(code, int) and not isinstance(code, bool)
    message = error.get("message")
    text = message if isinstance(message, str) and message else "an error without a text"
    return {**error, "code": code if is_number else 0, "message": text}
