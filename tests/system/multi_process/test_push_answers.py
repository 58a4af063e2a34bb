"""A push agent's answer where two servers share one PostgreSQL: who asked waits in one of them, one of them pushes."""

import asyncio
from pathlib import Path
from typing import Any

from molecule_core.client.api import ApiClient
from testing.clocks import FakeClock
from testing.push_agents import PushNetwork, said
from testing.running_server import Seat
from testing.waits import bounded, eventually, until_waiting
from tests.requirements import requirement
from tests.system.multi_process.shared_servers import knows, servers

URL = "https://agent.example/a2a"


async def ask(api: ApiClient, ops: Seat, patience: int) -> Any:
    """A message; its receipt or answer."""
    message = {"role": "user", "parts": [{"kind": "text", "text": "when?"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
    headers = {"x-timeout": str(patience)}
    return await api.call("POST", f"/workspaces/{ops.id}/a2a", body=body, headers=headers)


async def mail(desk: Seat) -> list[Any]:
    """All that ever came for a seat."""
    return list(await desk.api.get(f"/workspaces/{desk.id}/activity", type="a2a_receive"))


@requirement("M14", "M21", "M38")
async def test_an_answer_is_where_who_asked_looks_whichever_process_pushes(
    place: str, tmp_path: Path, clock: FakeClock
) -> None:
    net = PushNetwork()
    async with servers(place, tmp_path, clock=clock, fetcher=net) as pair:
        ops = await pair[0].seat("Ops", delivery_mode="push", url=URL, max_concurrent_tasks=2)
        desk = await pair[0].seat("PushNetwork")
        await knows(pair[1], desk.id, lambda _: True)
        apis = [each.api(desk.token) for each in pair]

        net.answers(URL, said("at noon"))
        answers = await bounded(asyncio.gather(*(ask(api, ops, 20) for api in apis)))
        assert [each["result"]["parts"][0]["text"] for each in answers] == ["at noon", "at noon"]
        assert await mail(desk) == []

        gate = net.hangs(URL)
        waiting = [asyncio.ensure_future(ask(api, ops, 3)) for api in apis]
        await eventually(lambda: pushed(net, clock), lambda count: count == 4)
        for each in pair:
            await until_waiting(each.server, 1)
        await clock.advance(3.1)
        assert all(receipt["queued"] for receipt in await bounded(asyncio.gather(*waiting)))
        gate.set()
        rows = await eventually(lambda: mail(desk), lambda found: len(found) >= 2)

    assert [row["request_body"]["params"]["message"]["parts"][0]["text"] for row in rows] == ["at last", "at last"]


async def pushed(net: PushNetwork, clock: FakeClock) -> int:
    """How often the agent was pushed to."""
    await clock.advance(0)
    return len(net.pushed)
