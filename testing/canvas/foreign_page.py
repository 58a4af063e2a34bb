"""A page of another origin, and what its scripts try at a server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_PAGE = b"""<!doctype html><title>Elsewhere</title><p>Free games</p>"""
SOCKET = """
(url) => new Promise((done) => {
  const socket = new WebSocket(url);
  socket.onmessage = (message) => done(JSON.parse(message.data).type);
  socket.onclose = () => done("closed");
  socket.onerror = () => done("refused");
})
"""
POST = """
([url, body, options]) => fetch(url, { method: "POST", body, credentials: "include", ...options }).then(
  (response) => response.status || response.type,
  () => "refused",
)
"""
FORM = """
([url, name, value]) => {
  const form = Object.assign(document.createElement("form"), { method: "post", action: url, enctype: "text/plain" });
  form.append(Object.assign(document.createElement("input"), { name, value }));
  document.body.append(form);
  form.submit();
}
"""


@asynccontextmanager
async def serving() -> AsyncIterator[str]:
    """A page of another origin; where it is."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        length = str(len(_PAGE)).encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n")
        writer.write(b"content-length: " + length + b"\r\n\r\n" + _PAGE)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


def message(text: str) -> str:
    """A command that writes to an agent."""
    part = f'{{"role":"user","messageId":"m-{text}","parts":[{{"kind":"text","text":"{text}"}}]}}'
    return f'{{"jsonrpc":"2.0","id":"1","method":"message/send","params":{{"message":{part}}}}}'
