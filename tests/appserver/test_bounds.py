"""What one client of the dialect may ask of the server at most."""

from pathlib import Path

from molecule_core.ground.limits import Limits
from tests.appserver.dialect import client
from tests.running import running
from tests.threads.house import BASE


async def test_a_client_that_follows_as_many_trees_as_it_may_is_told_to_leave_one(tmp_path: Path) -> None:
    limits = Limits(appserver_trees=1)
    async with running("sqlite", str(tmp_path / "store.db"), tmp_path, limits=limits) as server:
        ops = await server.seat("Ops")
        async with client(server, ops.token) as one:
            await one.begins()
            first = (await one.does("thread/start", baseInstructions=BASE))["thread"]["id"]
            refused = (await one.asks("thread/start", baseInstructions=BASE))["error"]
            assert (refused["code"], "thread/unsubscribe" in refused["message"]) == (-32600, True)
            assert [each["id"] for each in (await one.does("thread/list"))["data"]] == [first]
            await one.does("thread/unsubscribe", threadId=first)
            await one.does("thread/start", baseInstructions=BASE)
