"""A provider's limit of the own engine: the turn waits, nothing is asked meanwhile, also of another process."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from testing.running_server import Running
from testing.waits import eventually
from tests.agent.agent_runs import Watcher, home, living, long
from tests.agent.model_endpoint import Reply, endpoint

LIMITED = Reply(status=429, headers={"retry-after": "3600"})


@pytest.mark.long
async def test_a_long_limit_of_the_provider_holds_the_turn_until_it_ends(server: Running, tmp_path: Path) -> None:
    seat, person = await server.seat("Ops"), await server.person()
    watch = Watcher(seat)

    async def state() -> Any:
        return (await person.get(f"/workspaces/{seat.id}"))["limited_until"]

    async def content() -> list[str]:
        page = await seat.api.get(f"/workspaces/{seat.id}/chat-history", limit=100)
        return [each["content"] for each in page["messages"] if each["role"] != "user"]

    async with endpoint() as at:
        at.answers = [LIMITED, Reply("first"), Reply("second")]
        folder = home(tmp_path / "ops", at)
        await person.send(seat.id, "one")
        async with living(server, seat, folder):
            until = await long(state, bool)
        await person.send(seat.id, "two")
        async with living(server, seat, folder) as agent:
            await asyncio.wait_for(agent._limit._is_known.wait(), 20)
            assert (len(at.asked), await state(), await content()) == (1, until, [])
            await person.call("DELETE", f"/workspaces/{seat.id}/limit")
            assert await long(content, lambda found: len(found) == 2) == ["first", "second"]
            await eventually(watch.waiting, lambda count: count == 0)
    assert len(at.asked) == 3 and await state() is None
