"""Requests of an editor and what is sent to it, through the library `agent-client-protocol`.

The library's models check what comes. What is sent are plain objects: the tests check them with the same models.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from molecule_core.agent.acp_library import load_acp_library
from molecule_core.agent.host.stdio import Stdio

_log = logging.getLogger("molecule.agent")
PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS = -32700, -32600, -32602
INTERNAL_ERROR, AUTHENTICATION_REQUIRED, NOT_FOUND = -32603, -32000, -32002
_CANCEL_REQUEST, _ASK = "$/cancel_request", "session/request_permission"
_PROMPT, _CANCEL = "session/prompt", "session/cancel"

Members = dict[str, Any]


class EditorError(Exception):
    """A request of the editor that cannot be fulfilled. `code`: of JSON-RPC."""

    def __init__(self, code: int, message: str, data: Members | None = None) -> None:
        self.code = code
        self.data = data
        super().__init__(message)


class EditorMethod(Struct, frozen=True):
    """A method that the editor may call: the name of the library's model of its parameters, and what answers it."""

    model: str
    answer: Callable[[Members], Awaitable[Members]]


class EditorConnection:
    """The connection to the editor. It is the library's transport: whole messages, without faulty ones."""

    def __init__(self, stdio: Stdio) -> None:
        self._library = load_acp_library()
        self._stdio = stdio
        self._lines = stdio.lines()
        self._methods: Mapping[str, EditorMethod] = {}
        self._connection: Any = None
        self._questions: dict[str, int] = {}
        """Ids of open requests for a permission, by their tool call."""
        self._prompts: dict[str | int, str] = {}
        """Sessions of the prompts that run, by the ids of their requests."""

    async def serve(self, methods: Mapping[str, EditorMethod]) -> None:
        """Answer requests until the editor closes the connection."""
        self._methods = methods
        self._connection = self._library.connection.Connection(self._handle_call, self, listening=False)
        try:
            await self._connection.main_loop()
        finally:
            await self._connection.close()

    async def update(self, session_id: str, update: Members) -> None:
        """Send an update of a session. One that a closed connection cannot carry is dropped."""
        await self._notify("session/update", {"sessionId": session_id, "update": update})

    async def ask_permission(self, session_id: str, tool_call: Members, options: list[Members]) -> str | None:
        """Ask the person; return the id of the chosen option, or None without a choice.

        A caller that is cancelled withdraws the question."""
        call_id = str(tool_call["toolCallId"])
        params = {"sessionId": session_id, "toolCall": tool_call, "options": options}
        try:
            response = await self._connection.send_request(_ASK, params)
        except self._library.RequestError as error:
            _log.warning("the editor did not ask: %s", error)
            return None
        except ConnectionError:
            return None
        except asyncio.CancelledError:
            if (number := self._questions.get(call_id)) is not None:
                await self._notify(_CANCEL_REQUEST, {"requestId": number})
            raise
        finally:
            self._questions.pop(call_id, None)
        outcome = response.get("outcome") if isinstance(response, dict) else None
        chosen = outcome.get("optionId") if isinstance(outcome, dict) else None
        return chosen if isinstance(chosen, str) and chosen in [each["optionId"] for each in options] else None

    async def _notify(self, method: str, params: Members) -> None:
        try:
            await self._connection.send_notification(method, params)
        except (ConnectionError, OSError):
            return

    async def _handle_call(self, name: str, params: Any, is_notification: bool) -> Members:
        if name == _CANCEL_REQUEST:
            return await self._cancel_request(params)
        method = self._methods.get(name)
        if method is None:
            if is_notification:
                return {}
            raise self._library.RequestError.method_not_found(name)
        model = getattr(self._library.schema, method.model)
        checked = model.model_validate(params if params is not None else {})
        try:
            return await method.answer(checked.model_dump(mode="json", by_alias=True, exclude_none=True))
        except EditorError as error:
            raise self._library.RequestError(error.code, str(error), error.data) from None

    async def _cancel_request(self, params: Any) -> Members:
        """Cancel a prompt whose request is cancelled, as `session/cancel` does."""
        number = params.get("requestId") if isinstance(params, dict) else None
        session_id = self._prompts.get(number) if isinstance(number, str | int) else None
        if session_id is not None:
            await self._methods[_CANCEL].answer({"sessionId": session_id})
        return {}

    # -- the library's transport ---------------------------------------------------------------------------------------

    async def send(self, message: Members) -> None:
        """Write a message, for the library."""
        if message.get("method") == _ASK:
            self._questions[message["params"]["toolCall"]["toolCallId"]] = message["id"]
        if "method" not in message:
            self._prompts.pop(message.get("id", ""), None)
        if isinstance(message.get("error"), dict):
            message["error"] = {name: value for name, value in message["error"].items() if value is not None}
        await self._stdio.send(message)

    async def receive(self) -> Members | None:
        """Return the next message, for the library; None at the end."""
        async for line in self._lines:
            if not line.strip():
                continue
            try:
                message = msgspec.json.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                await self._refuse(PARSE_ERROR, "Parse error")
                continue
            if _is_message(message):
                self._note_prompt(message)
                return dict(message)
            await self._refuse(INVALID_REQUEST, "Invalid request")
        return None

    def _note_prompt(self, message: Members) -> None:
        number, params = message.get("id"), message.get("params")
        if message.get("method") == _PROMPT and isinstance(number, str | int) and isinstance(params, dict):
            self._prompts[number] = str(params.get("sessionId"))

    async def close(self) -> None:
        """Do nothing: the owner of the streams closes them."""

    async def _refuse(self, code: int, text: str) -> None:
        await self._stdio.send({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": text}})


def _is_message(message: object) -> bool:
    """Return whether this is a request, a notification, or a response to a number that was sent."""
    if not isinstance(message, dict):
        return False
    if "method" in message:
        return isinstance(message["method"], str)
    number = message.get("id")
    return isinstance(number, int) and not isinstance(number, bool) and isinstance(message.get("error", {}), dict)
