"""An agent of `molecule agent run`, in the test's own process or as one of its own, for a seat of a running server."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from molecule_core.agent.config import Configuration, read_configuration
from molecule_core.agent.engines.runner import EngineAgent
from molecule_core.agent.engines.settings import read_run_config
from molecule_core.client.threads import EngineThread, ThreadsClient
from molecule_core.wire.schemas.threads import ModelContext
from testing.processes import MOLECULE, Process, started
from testing.running_server import Running, Seat
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.agent.model_endpoint import Endpoint

KEY = "key-" + "k" * 24
_KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "PYTHONPATH")


def home(folder: Path, at: Endpoint, **more: Any) -> Path:
    """The folder of an agent whose model is an endpoint."""
    import json

    folder.mkdir(exist_ok=True)
    config = {"model": "openai:scripted", "base_url": f"{at.url}/v1", "api_key_env": "TEST_KEY", "beat_seconds": 0.1}
    lines = [f"{name}: {json.dumps(value)}" for name, value in {**config, **more}.items()]
    (folder / "config.yaml").write_text("\n".join(lines))
    (folder / "system-prompt.md").write_text("You are Ops, who keeps things going.")
    return folder


def environ(server: Running, seat: Seat, folder: Path, **more: str) -> dict[str, str]:
    """What the agent is told by its environment; `more`: beside that, or instead."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    own = {"WORKSPACE_ID": seat.id, "MOLECULE_WORKSPACE_TOKEN": seat.token, "PLATFORM_URL": server.url}
    quick = {"MOLECULE_MCP_LEASE_SECONDS": "5", "MOLECULE_MCP_RETRY_SECONDS": "0.05"}
    return {**kept, **own, **quick, "CONFIGS_DIR": str(folder / ".molecule"), "TEST_KEY": KEY, **more}


def configured(server: Running, seat: Seat, folder: Path) -> Configuration:
    """The same as its configuration."""
    return read_configuration(environ(server, seat, folder))


@contextlib.asynccontextmanager
async def living(server: Running, seat: Seat, folder: Path, **more: str) -> AsyncIterator[EngineAgent]:
    """The agent, until the block ends."""
    told = environ(server, seat, folder, **more)
    agent = EngineAgent(read_configuration(told), read_run_config(folder), folder, told)
    running = asyncio.create_task(agent.run(once=False))
    try:
        yield agent
    finally:
        agent.request_exit(0)
        async with asyncio.timeout(PROCESS_START_SECONDS):
            assert await running == 0


@contextlib.asynccontextmanager
async def command(server: Running, seat: Seat, folder: Path, *flags: str, **more: str) -> AsyncIterator[Process]:
    """The agent as the real command."""
    told = environ(server, seat, folder, **more)
    async with started(MOLECULE, "agent", "run", str(folder), *flags, env=told, cwd=folder) as process:
        yield process


async def keep_drafts(server: Running, seat: Seat) -> None:
    """What the agent says at last is then seen as a draft."""
    await server.admin.call("PATCH", f"/workspaces/{seat.id}", body={"send_drafts": False})


class Watcher:
    """Looks at what an agent does, as its own workspace."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self.threads = ThreadsClient(lambda: seat.api, seat.id)

    async def all(self) -> list[dict[str, Any]]:
        """All threads, oldest first."""
        page = await self._seat.api.get(f"/workspaces/{self._seat.id}/threads")
        return list(reversed(page["threads"]))

    async def rests(self, count: int = 1) -> list[dict[str, Any]]:
        """All threads, once there are so many and nothing is to be done in any of them."""

        def over(found: list[dict[str, Any]]) -> bool:
            return len(found) >= count and all(
                each["turns"] and not each["turn_id"] and not each["queued"] for each in found
            )

        found: list[dict[str, Any]] = await long(self.all, over)
        return found

    async def thread(self, place: int = 0) -> EngineThread:
        """One of them, whole."""
        return await self.threads.get((await self.all())[place]["thread_id"])

    async def sight(self, place: int = 0) -> ModelContext:
        """What its model sees."""
        return await self.threads.get_model_context((await self.all())[place]["thread_id"])

    async def types(self, place: int = 0) -> list[str]:
        """Its log in short."""
        return [each.type for each in await self.threads.list_entries((await self.all())[place]["thread_id"])]

    async def waiting(self) -> int:
        """How many messages nobody has handled."""
        return len(await self._seat.api.get(f"/workspaces/{self._seat.id}/activity", waiting="true", limit=100))

    async def drafts(self) -> dict[str, tuple[str, str]]:
        """What became of each message that wanted an answer: its state and its draft, by activity id."""
        page = await self._seat.api.get(f"/workspaces/{self._seat.id}/obligations", limit=100, state="all")
        return {each["activity_id"]: (each["state"], each.get("draft") or "") for each in page["obligations"]}


async def long(look: Any, wanted: Any) -> Any:
    """What is seen at last of something that takes a while."""
    return await eventually(look, wanted, PROCESS_START_SECONDS)
