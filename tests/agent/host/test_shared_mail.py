"""Two sessions of one workspace: mail belongs to the one that asks for it, and is in one of them at every moment."""

import asyncio
from pathlib import Path

from testing.mcp_host import Agent, agent, single
from testing.running_server import Running
from testing.waits import eventually
from tests.requirements import requirement

COUNT = 200


async def greeted(leader: Agent, follower: Agent) -> None:
    """The first session leads, the second follows it."""
    await leader.greet()
    await leader.call("inbox_peek")
    await follower.greet()
    await follower.call("inbox_peek")


async def texts_of(process: Agent) -> list[str]:
    """What a session shows as open."""
    return [message["text"] for message in (await process.call("inbox_peek", limit=50))["messages"]]


@requirement("G14")
async def test_of_two_sessions_each_gets_a_message_whenever_it_asks_200_of_200(one: Running, state: Path) -> None:
    seat, person = await one.seat(), await one.person()
    async with agent(state, **single(one, seat)) as leader, agent(state, **single(one, seat)) as follower:
        await greeted(leader, follower)
        sent = {(await person.send(seat.id, f"message {number}"))["activity_id"] for number in range(COUNT)}
        got = []
        for number in range(COUNT):
            # Runs of ten, so that each is the only one that asks for a while.
            asker = follower if number // 10 % 2 == 0 else leader
            message = (await asker.call("wait_for_message", timeout_secs=10))["message"]
            assert message is not None, number
            got.append(message["activity_id"])
            assert (await asker.call("inbox_pop", activity_id=message["activity_id"]))["removed"] is True
        assert (len(got), set(got)) == (COUNT, sent)
        for each in (leader, follower):
            assert (await each.call("wait_for_message", timeout_secs=0))["message"] is None
        assert (await person.get(f"/workspaces/{seat.id}/waiting"))["waiting"] == 0


@requirement("G14")
async def test_a_message_that_comes_while_the_second_session_waits_goes_to_it(one: Running, state: Path) -> None:
    seat, person = await one.seat(), await one.person()
    async with agent(state, **single(one, seat)) as leader, agent(state, **single(one, seat)) as follower:
        await greeted(leader, follower)
        for number in range(5):
            waiting = asyncio.create_task(follower.call("wait_for_message", timeout_secs=30))
            await person.send(seat.id, f"for the second {number}")
            message = (await waiting)["message"]
            assert message["text"] == f"for the second {number}"
            assert await texts_of(leader) == []
            replied = await follower.call("reply_to_workspace", text="done", activity_id=message["activity_id"])
            assert replied["acknowledged"] is True
            assert await texts_of(follower) == []
        chat = (await person.get(f"/workspaces/{seat.id}/chat-history"))["messages"]
        assert [line["content"] for line in chat if line["role"] == "agent"] == ["done"] * 5


@requirement("G14")
async def test_the_second_session_counts_what_the_first_has_left(one: Running, state: Path) -> None:
    seat, person = await one.seat(), await one.person()
    async with agent(state, **single(one, seat)) as leader, agent(state, **single(one, seat)) as follower:
        await greeted(leader, follower)
        sent = [(await person.send(seat.id, f"message {number}"))["activity_id"] for number in range(3)]

        async def counted() -> list[int]:
            found = []
            while (result := await follower.call("wait_for_message", timeout_secs=0))["message"] is not None:
                found.append(result["waiting"])
                await follower.call("inbox_pop", activity_id=result["message"]["activity_id"])
            return found

        async def ticks() -> list[set[str]]:
            pages = [await person.get(f"/workspaces/{seat.id}/messages/{each}/ticks") for each in sent]
            return [{each["tick"] for each in page["ticks"]} for page in pages]

        await eventually(ticks, lambda found: all("in_inbox" in each for each in found))
        assert await counted() == [2, 1, 0]


@requirement("G14")
async def test_mail_of_a_session_that_is_killed_is_in_the_other_at_once(one: Running, state: Path) -> None:
    seat, person = await one.seat(), await one.person()
    async with agent(state, **single(one, seat)) as leader, agent(state, **single(one, seat)) as follower:
        await greeted(leader, follower)
        for text in ("handled", "open"):
            await person.send(seat.id, text)
        taken = [(await follower.call("wait_for_message", timeout_secs=10))["message"] for _ in range(2)]
        assert [each["text"] for each in taken] == ["handled", "open"]
        await follower.call("inbox_pop", activity_id=taken[0]["activity_id"])
        assert await texts_of(leader) == []
        await follower.kill()
        message = (await leader.call("wait_for_message", timeout_secs=10))["message"]
        assert message["text"] == "open"
        assert message["attempt"] == 1


@requirement("G14")
async def test_a_session_keeps_its_mail_when_the_leader_is_killed_and_answers_it_once(
    one: Running, state: Path
) -> None:
    seat, person = await one.seat(), await one.person()
    async with agent(state, **single(one, seat)) as leader, agent(state, **single(one, seat)) as follower:
        await greeted(leader, follower)
        await person.send(seat.id, "a long task")
        message = (await follower.call("wait_for_message", timeout_secs=10))["message"]
        await leader.kill()
        await person.send(seat.id, "another")
        later = (await follower.call("wait_for_message", timeout_secs=30))["message"]
        assert later["text"] == "another"
        for each in (message, later):
            replied = await follower.call("reply_to_workspace", text="done", activity_id=each["activity_id"])
            assert replied["acknowledged"] is True

        async def waiting() -> int:
            return int((await person.get(f"/workspaces/{seat.id}/waiting"))["waiting"])

        assert await eventually(waiting, lambda count: count == 0) == 0
        assert await texts_of(follower) == []
