"""Agents of the company that give each other work: over HTTP and over MCP, taken and answered by their agents."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any

from playwright.async_api import Locator, Page

from testing.canvas.company import Stage
from testing.mcp_clients import hosted
from testing.waits import bounded, eventually
from tests.canvas.message_actions import obligation, take

Begin = Callable[[Stage, str, str, str], Awaitable[str]]
PATIENCE_SECONDS = 120
"""How long a client that waits for its answer would wait; no test does."""


async def by_http(stage: Stage, source: str, target: str, task: str) -> str:
    """An agent gives work over HTTP; the id of the delegation."""
    seat = stage.seats[source]
    body = {"target_id": stage.seats[target].id, "task": task}
    answer = await seat.api.post(f"/workspaces/{seat.id}/delegate", body)
    return str(answer["delegation_id"])


async def by_mcp(stage: Stage, source: str, target: str, task: str) -> str:
    """An agent gives work with a tool of its MCP client that returns at once; the id of the delegation."""
    async with hosted(stage.server, stage.seats[source].token, "handshake") as host:
        receipt = await host.call("delegate_task_async", workspace_id=stage.seats[target].id, task=task)
    return str(receipt["task_id"])


class Waiting:
    """An agent whose MCP client waits for the answer to each piece of work that it gives."""

    def __init__(self) -> None:
        self._calls: list[asyncio.Task[dict[str, Any]]] = []

    async def begin(self, stage: Stage, source: str, target: str, task: str) -> str:
        """Gives work; the id of the delegation, while the call goes on."""
        known = await self._given(stage, source)
        self._calls.append(asyncio.create_task(self._call(stage, source, target, task)))
        found = await eventually(lambda: self._given(stage, source), lambda now: now > known)
        (new,) = found - known
        return new

    async def _given(self, stage: Stage, source: str) -> set[str]:
        seat = stage.seats[source]
        items = await seat.api.get(f"/workspaces/{seat.id}/delegations", limit=500)
        return {str(item["delegation_id"]) for item in items}

    async def _call(self, stage: Stage, source: str, target: str, task: str) -> dict[str, Any]:
        given = {"workspace_id": stage.seats[target].id, "task": task, "wait": PATIENCE_SECONDS}
        async with hosted(stage.server, stage.seats[source].token, "handshake") as host:
            result = await host.client.call_tool("delegate_task", given)
        assert not result.is_error, result
        return dict(result.structured_content)

    async def told(self) -> list[dict[str, Any]]:
        """What the client was told of each; all must have ended."""
        return [await bounded(call) for call in self._calls]

    async def leave(self) -> None:
        """The client goes; whatever it was told must not have been a refusal."""
        done = [call for call in self._calls if call.done()]
        for call in self._calls:
            call.cancel()
        await asyncio.wait(self._calls) if self._calls else None
        for call in done:
            call.result()


@asynccontextmanager
async def waiting() -> AsyncIterator[Begin]:
    """An agent whose MCP client waits, until the block ends."""
    client = Waiting()
    try:
        yield client.begin
    finally:
        await client.leave()


def at_once(begin: Begin) -> Callable[[], AbstractAsyncContextManager[Begin]]:
    """A way that is over with its receipt."""

    @asynccontextmanager
    async def entrance() -> AsyncIterator[Begin]:
        yield begin

    return entrance


ENTRANCES = {"http": at_once(by_http), "mcp": at_once(by_mcp), "mcp-waiting": waiting}
"""By name: the ways in which an agent gives work to another one, each open until its block ends."""


async def begun_at(stage: Stage, delegation_id: str) -> float:
    """When its first event was told, in seconds since the epoch."""
    found = await stage.admin.get(f"/delegations/{delegation_id}")
    return datetime.fromisoformat(found["delegation"]["created_at"]).timestamp()


async def take_work(stage: Stage, name: str) -> dict[str, Any]:
    """An agent takes the next thing that it is given; the row as it has it."""
    return await take(stage, name)


async def answer_work(stage: Stage, name: str, text: str) -> None:
    """An agent answers the one piece of work that it has taken."""
    seat, owed = stage.seats[name], await obligation(stage, name, "open")
    await seat.api.post(f"/workspaces/{seat.id}/reply", {"handle": owed["handle"], "text": text})


async def decline_work(stage: Stage, name: str, reason: str) -> None:
    """An agent declines the one piece of work that it has taken."""
    seat, owed = stage.seats[name], await obligation(stage, name, "open")
    await seat.api.post(f"/workspaces/{seat.id}/decline", {"handle": owed["handle"], "reason": reason})


async def say_progress(stage: Stage, name: str, delegation_id: str, **said: Any) -> None:
    """An agent says how far its work is."""
    await stage.seats[name].api.post(f"/delegations/{delegation_id}/status", said)


def bubble(page: Page, delegation_id: str) -> Locator:
    """The work in the chat of who gave it."""
    return page.locator(f"li[data-delegation='{delegation_id}']")


async def open_groups(page: Page) -> None:
    """A person opens all groups of work in a chat; there must be one."""
    closed = page.locator("li[data-group] button[aria-expanded='false']")
    await page.locator("li[data-group] button[aria-expanded]").first.wait_for()
    while await closed.count() > 0:
        await closed.first.click()


async def hold_element(page: Page, delegation_id: str) -> None:
    """Remembers the element of this work on the page."""
    await bubble(page, delegation_id).evaluate("element => { window.held = element; }")


async def is_held(page: Page, delegation_id: str) -> bool:
    """Whether the element of this work is still the one that was remembered."""
    return bool(await bubble(page, delegation_id).evaluate("element => element === window.held"))
