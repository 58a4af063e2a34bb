"""Requests and responses of `codex app-server`: JSON-RPC in lines, without the `jsonrpc` member."""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from molecule_core.agent.bridges.line_process import LineProcess
from molecule_core.agent.bridges.sessions import DriverDied

_log = logging.getLogger("molecule.bridge")
METHOD_NOT_FOUND, INTERNAL_ERROR = -32601, -32603

NotificationHandler = Callable[[str, dict[str, Any]], None]
RequestHandler = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any] | None]]
"""Returns the result of a request of the program; None if the method is unknown."""


class CodexError(Exception):
    """An error response. `info`: its `codexErrorInfo`, if there is one."""

    def __init__(self, message: str, info: object = None) -> None:
        self.info = info
        super().__init__(message)


class CodexConnection:
    """A connection to one running `codex app-server`."""

    def __init__(
        self,
        process: LineProcess,
        on_notification: NotificationHandler,
        on_request: RequestHandler,
        on_end: Callable[[str], None],
    ) -> None:
        self._process = process
        self._on_notification = on_notification
        self._on_request = on_request
        self._on_end = on_end
        self._ids = itertools.count(1)
        self._pending: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self.end_reason: str | None = None
        """Why the program ended; None while it runs."""

    async def start(self, *, ends_others: bool) -> None:
        """Start the program, as `LineProcess.start` does."""
        await self._process.start(self._handle_message, self._handle_end, ends_others=ends_others)

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request. Raises CodexError for an error response, DriverDied if the program ends."""
        if self.end_reason is not None:
            raise DriverDied(self.end_reason)
        number = next(self._ids)
        response: asyncio.Future[dict[str, Any]]
        response = self._pending[number] = asyncio.get_running_loop().create_future()
        self._process.send({"id": number, "method": method, "params": params})
        try:
            return await response
        finally:
            self._pending.pop(number, None)

    def notify(self, method: str) -> None:
        """Send a notification."""
        self._process.send({"method": method})

    async def close(self) -> None:
        """End the program."""
        await self._process.close()

    def _handle_message(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params")
        if isinstance(method, str):
            fields = params if isinstance(params, dict) else {}
            if "id" not in message:
                self._on_notification(method, fields)
                return
            task = asyncio.create_task(self._answer(message["id"], method, fields))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
            return
        number = message.get("id")
        response = self._pending.get(number) if isinstance(number, int) else None
        if response is None or response.done():
            return
        error = message.get("error")
        if isinstance(error, dict):
            data = error.get("data")
            info = data.get("codexErrorInfo") if isinstance(data, dict) else None
            response.set_exception(CodexError(str(error.get("message", "unknown error")), info))
        else:
            result = message.get("result")
            response.set_result(result if isinstance(result, dict) else {})

    async def _answer(self, number: object, method: str, params: dict[str, Any]) -> None:
        try:
            result = await self._on_request(method, params)
        except Exception as error:
            _log.error("a request of Codex could not be answered: %s", method, exc_info=error)
            self._process.send({"id": number, "error": {"code": INTERNAL_ERROR, "message": "internal error"}})
            return
        if result is None:
            fault = {"code": METHOD_NOT_FOUND, "message": f"Molecule does not answer {method}"}
            self._process.send({"id": number, "error": fault})
        else:
            self._process.send({"id": number, "result": result})

    def _handle_end(self, reason: str) -> None:
        self.end_reason = reason
        for response in self._pending.values():
            if not response.done():
                response.set_exception(DriverDied(reason))
        for task in self._answering:
            task.cancel()
        self._on_end(reason)
