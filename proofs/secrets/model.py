"""A model that takes nobody's key, and says so with the key in its answer, as some do."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Model:
    """Speaks like a provider on loopback. `keys`: those that it was shown; `came` is set with the first."""

    def __init__(self) -> None:
        self.url = ""
        self.keys: list[str] = []
        self.came = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one refusal."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
            fields = dict(line.split(": ", 1) for line in head[1:] if ": " in line)
            await reader.readexactly(int(fields.get("content-length", "0")))
            key = fields.get("authorization", "").removeprefix("bearer ")
            self.keys.append(key)
            error = {"message": f"Incorrect API key provided: {key}", "type": "x", "code": "invalid_api_key"}
            body = json.dumps({"error": error}).encode()
            told = {"content-type": "application/json", "connection": "close", "content-length": str(len(body))}
            lines = ["HTTP/1.1 401 .", *(f"{name}: {text}" for name, text in told.items()), "", ""]
            writer.write("\r\n".join(lines).encode() + body)
            await writer.drain()
            self.came.set()
        except (OSError, EOFError):
            return
        finally:
            writer.close()


@asynccontextmanager
async def refusing_model() -> AsyncIterator[Model]:
    """One, until the block ends."""
    model = Model()
    server = await asyncio.start_server(model.serve, "127.0.0.1", 0)
    model.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield model
