"""What a push that is running when its server stops comes to."""

from pathlib import Path

import msgspec

from testing.clocks import FakeClock
from testing.engines import Engine
from testing.push_agents import PushNetwork
from testing.running_server import UNHURRIED, Running, running
from tests.messages.delivery.push_server import URL, PushServer
from tests.requirements import requirement

# 1 s: that running pushes may delay the end.
QUICK_STOP = msgspec.structs.replace(UNHURRIED, push_stop_seconds=1)


@requirement("P2")
async def test_a_stopping_server_waits_for_the_answer_to_a_running_push(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    net = PushNetwork()
    gate = net.hangs(URL)
    async with running(engine, place, tmp_path, clock=clock, fetcher=net) as server:
        ops = await server.seat("Ops", delivery_mode="push", url=URL)
        post = PushServer(server, await server.person(), clock, net, ops)
        asked = await post.ask("hello")
        await post.until_pushed(1)
        await begin_stop(server)
        gate.set()
    async with running(engine, place, tmp_path, clock=clock, fetcher=net, seed=1) as server:
        post = PushServer(server, await server.person(), clock, net, ops)
        await post.stands(asked, "completed")
        await post.quiet()
    assert [each.attempt for each in net.pushed] == [1]


async def test_a_push_without_an_answer_does_not_hold_up_the_stop_and_is_made_again(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    net = PushNetwork()
    net.hangs(URL)
    async with running(engine, place, tmp_path, clock=clock, fetcher=net, limits=QUICK_STOP) as server:
        ops = await server.seat("Ops", delivery_mode="push", url=URL)
        post = PushServer(server, await server.person(), clock, net, ops)
        await post.ask("hello")
        await post.until_pushed(1)
    net.hangs(URL).set()
    async with running(engine, place, tmp_path, clock=clock, fetcher=net, seed=1, limits=QUICK_STOP) as server:
        post = PushServer(server, await server.person(), clock, net, ops)
        await post.until_pushed(2)
        await post.quiet()
    assert [each.attempt for each in net.pushed] == [1, 2]


async def begin_stop(server: Running) -> None:
    """Begin to stop a server, and let its workers notice."""
    server.server.wakeups.close()
    await server.admin.get("/orgs")
