"""A client of a few lines: one connection, one call at a time, nothing hidden. It shares no code with the product."""

import asyncio
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

# Longer than any answer takes on a busy machine; reaching it counts as no answer.
_PATIENCE_SECONDS = 30.0


class NoAnswer(Exception):
    """The connection ended before the answer was complete: what was asked may or may not have been done."""


class Refused(Exception):
    """An answer of 400 or above."""

    def __init__(self, status: int, body: Any) -> None:
        self.status = status
        self.code: str = body.get("code", "") if isinstance(body, dict) else ""
        super().__init__(f"{status} {body}")


class Caller:
    """A credential at one port of this machine, or at any of several: then each connection asks which. An async context
    manager; connects when it has to."""

    def __init__(self, port: int | Callable[[], int], token: str) -> None:
        self._port = port
        self._token = token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> "Caller":
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._hang_up()

    async def get(self, path: str, **query: Any) -> Any:
        """What a path answers. Raises NoAnswer, Refused."""
        return await self.call("GET", f"{path}?{urlencode(query)}" if query else path)

    async def post(self, path: str, body: Any, **headers: str) -> Any:
        """What a path answers to a body; headers with `_` for `-`. Raises NoAnswer, Refused."""
        return await self.call("POST", path, json.dumps(body).encode(), headers)

    async def call(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Any:
        """One request, one answer. A body is JSON if the headers do not say otherwise."""
        answer = await self._ask(method, path, body, headers or {})
        return json.loads(answer) if answer else None

    async def fetch(self, path: str) -> bytes:
        """The bytes that a path answers. Raises NoAnswer, Refused."""
        return await self._ask("GET", path, b"", {})

    async def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        given = {"host": "127.0.0.1", "authorization": f"Bearer {self._token}"}
        if body:
            given |= {"content-type": "application/json", "content-length": str(len(body))}
        given |= {name.replace("_", "-"): text for name, text in headers.items()}
        head = [f"{method} {path} HTTP/1.1", *(f"{name}: {text}" for name, text in given.items()), "", ""]
        answered = False
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                status, answer = await self._exchange("\r\n".join(head).encode() + body)
            answered = True
        except (OSError, EOFError, TimeoutError) as error:
            raise NoAnswer(repr(error)) from error
        finally:
            if not answered:  # also when this task is cancelled: an answer must not be read by the next call
                self._hang_up()
        if status >= 400:
            raise Refused(status, json.loads(answer) if answer else None)
        return answer

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        if self._streams is None:
            port = self._port() if callable(self._port) else self._port
            self._streams = await asyncio.open_connection("127.0.0.1", port)
        reader, writer = self._streams
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
        fields = dict(line.split(": ", 1) for line in head[1:] if ": " in line)
        answer = await reader.readexactly(int(fields.get("content-length", "0")))
        if fields.get("connection") == "close":
            self._hang_up()
        return int(head[0].split(" ")[1]), answer

    def _hang_up(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None
