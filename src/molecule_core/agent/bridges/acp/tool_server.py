"""Offers the platform's tools to the sessions of an ACP agent: a Unix socket per session, served in this process.

ACP lets an agent reach tools only as an MCP server. A server of its own process would need the workspace's token within
reach of the agent; the relay that the agent starts needs only the path of a socket, which ends with the bridge.
"""

import asyncio
import contextlib
import logging
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from molecule_core.agent.bridges.session_mcp import SERVER_NAME, ToolCaller, answer_mcp_message
from molecule_core.agent.bridges.sessions import SessionTool

_log = logging.getLogger("molecule.bridge")
_RELAY = ("-P", "-m", "molecule_core.agent.bridges.acp.tool_relay")


class ToolServer:
    """Sockets of all sessions, in a folder that only this user may enter."""

    def __init__(self, tools: Sequence[SessionTool], *, max_line_bytes: int) -> None:
        self._tools = tools
        self._max_line_bytes = max_line_bytes
        self._folder: Path | None = None
        self._accepted = 0
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

    async def open_session(self, call_tool: ToolCaller) -> dict[str, Any]:
        """Return the MCP server of a new session, as an entry of `mcpServers`. Raises OSError."""
        if self._folder is None:
            # A short path: the length of a socket's path is limited to about 100 bytes.
            self._folder = Path(tempfile.mkdtemp(prefix="molecule-"))
        path = self._folder / f"{len(self._servers)}.sock"

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connections.add(task)
            self._accepted += 1
            try:
                await self._serve(reader, writer, call_tool, f"{path.parent.name}-{self._accepted}")
            finally:
                self._connections.discard(task)

        self._servers.append(await asyncio.start_unix_server(serve, path, limit=self._max_line_bytes))
        return {"name": SERVER_NAME, "command": sys.executable, "args": [*_RELAY, str(path)], "env": []}

    async def close(self) -> None:
        """Close all sockets and their connections."""
        for server in self._servers:
            server.close()
        connections = tuple(self._connections)
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        self._servers.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, call_tool: ToolCaller, connection_id: str
    ) -> None:
        answering: set[asyncio.Task[None]] = set()

        async def answer(message: dict[str, Any]) -> None:
            response = await answer_mcp_message(message, self._tools, call_tool, connection_id)
            if response is not None and not writer.is_closing():
                writer.write(msgspec.json.encode(response) + b"\n")

        try:
            while line := await reader.readline():
                with contextlib.suppress(msgspec.DecodeError):
                    message = msgspec.json.decode(line)
                    if isinstance(message, dict):
                        task = asyncio.create_task(answer(message))
                        answering.add(task)
                        task.add_done_callback(answering.discard)
        except (OSError, ValueError) as error:
            _log.warning("the connection of an agent to the tools broke: %s", error)
        finally:
            for each in answering:
                each.cancel()
            writer.close()
