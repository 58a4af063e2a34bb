"""`molecule up --demo` as a person meets it: real processes, their words, their pids; and the person who writes."""

import os
import re
import signal
from asyncio import timeout
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from molecule_core.client.api import ApiClient, ApiError
from testing.processes import MOLECULE, Process, client, environment, started
from testing.waits import PROCESS_START_SECONDS

TEXT = "Plan a landing page for our launch"

# Other names, another tree and other crafts than those of the packaged company.
BAKERY = """
name = "Bäckerei"

[[seat]]
name = "Chefin"
role = "Leitet alles."
behaviour = "lead"
seconds = 0

[[seat.seat]]
name = "Backstube"
role = "Backt."
behaviour = "lead"
seconds = 0

[[seat.seat.seat]]
name = "Ofen"
role = "Schätzt."
behaviour = "specialist"
seconds = 0
host = "mcp"
[[seat.seat.seat.craft]]
kind = "estimate"
title = "Aufwand"
days = { launch = 3, page = 4 }

[[seat.seat]]
name = "Theke"
role = "Prüft."
behaviour = "specialist"
seconds = 0
[[seat.seat.craft]]
kind = "checks"
title = "Risiken"
items = [{ say = "Viele kommen.", when = ["launch"] }]

[[seat]]
name = "Telefon"
role = "Reicht weiter."
behaviour = "desk"
seconds = 0
[[seat.craft]]
kind = "topics"
title = "Themen"
"""


def packaged_without_pauses() -> str:
    """The packaged company, whose agents take no time."""
    text = resources.files("molecule_core.demo").joinpath("company.toml").read_text(encoding="utf-8")
    unhurried = re.sub(r"^seconds = .*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"^(behaviour = .*)$", r"\1\nseconds = 0", unhurried, flags=re.MULTILINE)


class Demo:
    """A demo that runs, and its operator."""

    def __init__(self, process: Process, api: ApiClient) -> None:
        self.process = process
        self.api = api

    def pid(self, name: str) -> int:
        """The process of an agent, as the terminal tells it."""
        found = re.search(rf"^ +{name} +pid (\d+)$", self.process.said, flags=re.MULTILINE)
        assert found is not None, self.process.said
        return int(found[1])

    def kill(self, name: str) -> None:
        """kill -9 for one agent."""
        os.kill(self.pid(name), signal.SIGKILL)

    async def prompt_of(self, name: str) -> dict[str, Any]:
        """The system prompt that was told of a seat; empty as long as none was."""
        try:
            view = await self.api.get(f"/workspaces/{await self.id(name)}/prompt")
        except ApiError as error:
            assert error.code == "no_prompt_yet"
            return {}
        return dict(view["build"])

    async def seats(self) -> dict[str, Any]:
        """name -> seat."""
        return {row["name"]: row for row in await self.api.get("/workspaces")}

    async def id(self, name: str) -> str:
        """The id of a seat."""
        return str((await self.seats())[name]["id"])

    async def ask(self, name: str, text: str = TEXT) -> str:
        """Writes to an agent; returns the message's id."""
        return str((await self.api.send(await self.id(name), text))["activity_id"])

    async def chat(self, name: str) -> list[tuple[str, str]]:
        """(role, text) of what was said with an agent."""
        page = await self.api.get(f"/workspaces/{await self.id(name)}/chat-history")
        return [(line["role"], line["content"]) for line in page["messages"]]

    async def chat_of(self, name: str, lines: int) -> list[tuple[str, str]]:
        """The same, once it has so many lines."""
        found: list[tuple[str, str]] = []

        async def look() -> bool:
            found[:] = await self.chat(name)
            return len(found) >= lines

        await self._until(name, look)
        return found

    async def until_seat(self, name: str, wanted: Callable[[dict[str, Any]], bool]) -> None:
        """Waits until a seat is as wanted."""

        async def look() -> bool:
            return wanted((await self.seats())[name])

        await self._until(name, look)

    async def _until(self, name: str, look: Callable[[], Any]) -> None:
        """Looks whenever the seat's log grows, and each second: bounded, and no burden for the machine."""
        path = f"/workspaces/{await self.id(name)}/activity"
        async with timeout(PROCESS_START_SECONDS):
            while True:
                newest = await self.api.get(path, limit=1)
                if await look():
                    return
                await self.api.get(path, wait=1, **({"since_id": newest[0]["id"]} if newest else {}))


@asynccontextmanager
async def started_demo(state: Path, port: int, *flags: str, **more: str) -> AsyncIterator[Process]:
    """`molecule up --demo`, from its first moment. It is killed with -9 at the end of the block, which ends only when
    nobody holds its standard error any more: neither it nor one of its agents."""
    # What it says on standard output is to be read while it runs, as its standard error is.
    both = ("sh", "-c", 'exec "$@" 1>&2', "sh", MOLECULE, "up", "--demo", *flags)
    async with started(*both, env=environment(state, port, **more)) as process:
        yield process


@asynccontextmanager
async def running_demo(state: Path, port: int, company: Path | None, *flags: str, **more: str) -> AsyncIterator[Demo]:
    """The same, with its company seated."""
    files = () if company is None else ("--company", str(company))
    async with started_demo(state, port, *files, *flags, **more) as process:
        await process.says("Ctrl-C")
        async with client(port) as api:
            yield Demo(process, api)
