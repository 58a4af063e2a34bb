"""A scripted endpoint on loopback that speaks like OpenAI's (`/v1/chat/completions`) and like Anthropic's
(`/v1/messages`), and keeps every request as it arrived. It refuses what the vendors refuse (`vendor_rules`)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.agent.vendor_rules import refusal_of


@dataclass(frozen=True)
class Reply:
    """What the endpoint answers once. A status other than 200 is a refusal. `breaks`: the stream ends in the middle;
    `garbled`: it holds a chunk that no client can read."""

    text: str = ""
    calls: tuple[tuple[str, str, dict[str, Any]], ...] = ()
    usage: tuple[int, int] = (100, 10)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    breaks: bool = False
    garbled: bool = False
    thought: str = ""
    """Signed, as Anthropic's are."""


@dataclass(frozen=True)
class Asked:
    """A request as it arrived."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    raw: bytes


class Endpoint:
    """`answers`: what is answered, in order; a function is asked with the request, and may answer any number."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.asked: list[Asked] = []
        self.answers: list[Reply | Callable[[Asked], Reply]] = []
        self.gate: asyncio.Event | None = None
        """Answers wait for it, if there is one."""
        self.refused: list[str] = []
        """Why requests were refused as the vendors would."""
        self.came = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
            raw = await reader.readexactly(int(headers.get("content-length", "0")))
            asked = Asked(first.split()[1], headers, msgspec.json.decode(raw), raw)
            self.asked.append(asked)
            self.came.set()
            if self.gate is not None:
                await self.gate.wait()
            for chunk in self._answer(asked):
                writer.write(chunk)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    def _answer(self, asked: Asked) -> Iterator[bytes]:
        reason = refusal_of(asked.path, asked.body)
        if reason is not None:
            self.refused.append(reason)
            error = {"type": "error", "error": {"type": "invalid_request_error", "message": reason}}
            yield b"HTTP/1.1 400 .\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n"
            yield msgspec.json.encode(error)
            return
        planned = self.answers[0]
        reply = planned if isinstance(planned, Reply) else planned(asked)
        if isinstance(planned, Reply):
            self.answers.pop(0)
        kind = "text/event-stream" if reply.status == 200 else "application/json"
        told = {"content-type": kind, "connection": "close", **reply.headers}
        lines = [f"HTTP/1.1 {reply.status} .", *(f"{name}: {value}" for name, value in told.items()), "", ""]
        yield "\r\n".join(lines).encode()
        if reply.status != 200:
            yield msgspec.json.encode({"type": "error", "error": {"type": "an_error", "message": "not now"}})
            return
        events = list(_anthropic(reply) if asked.path.endswith("/messages") else _openai(reply))
        yield from events[: len(events) // 2] if reply.breaks else events


def _openai(reply: Reply) -> Iterator[bytes]:
    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return _data({**_HEAD, "choices": [choice]})

    if reply.garbled:
        yield _data({**_HEAD, "choices": None})
    for piece in _pieces(reply.text):
        yield chunk({"role": "assistant", "content": piece})
    for index, (id_, name, arguments) in enumerate(reply.calls):
        call = {"index": index, "id": id_, "type": "function", "function": {"name": name, "arguments": ""}}
        yield chunk({"tool_calls": [call]})
        for piece in _pieces(msgspec.json.encode(arguments).decode()):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, "tool_calls" if reply.calls else "stop")
    spent, made = reply.usage
    usage = {"prompt_tokens": spent, "completion_tokens": made, "total_tokens": spent + made}
    yield _data({**_HEAD, "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


_HEAD = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}


def _anthropic(reply: Reply) -> Iterator[bytes]:
    spent, made = reply.usage
    message: dict[str, Any] = {"id": "m1", "type": "message", "role": "assistant", "model": "scripted", "content": []}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": spent, "output_tokens": 1}}
    yield _event("message_start", message=message)
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if reply.thought:
        thinking = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(reply.thought)]
        signed = {"type": "signature_delta", "signature": "signed"}
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*thinking, signed]))
    if reply.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(reply.text)]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for id_, name, arguments in reply.calls:
        pieces = _pieces(msgspec.json.encode(arguments).decode())
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        blocks.append(({"type": "tool_use", "id": id_, "name": name, "input": {}}, deltas))
    for index, (block, deltas) in enumerate(blocks):
        yield _event("content_block_start", index=index, content_block=block)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    reason = "tool_use" if reply.calls else "end_turn"
    usage = {"output_tokens": made}
    yield _event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage=usage)
    yield _event("message_stop")


def _pieces(text: str) -> list[str]:
    """Some pieces of a text, so that a stream is one."""
    size = max(1, len(text) // 3)
    return [text[start : start + size] for start in range(0, len(text), size)]


def _data(value: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def _event(kind: str, **members: Any) -> bytes:
    return f"event: {kind}\n".encode() + _data({"type": kind, **members})


@asynccontextmanager
async def endpoint() -> AsyncIterator[Endpoint]:
    """An endpoint, until the block ends."""
    found: list[Endpoint] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await found[0].serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    found.append(Endpoint(server.sockets[0].getsockname()[1]))
    async with server:
        yield found[0]
