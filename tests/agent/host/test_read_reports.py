"""A message is in the agent's inbox until a result of a tool has shown it; then it is delivered. Real processes."""

from pathlib import Path
from typing import Any

from testing.mcp_host import agent, seated, single
from testing.running_server import Running, Seat
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.requirements import requirement


async def ticks_of(person: Any, seat: Seat, activity_id: str) -> list[str]:
    """What the sender of a message sees."""
    found = await person.get(f"/workspaces/{seat.id}/messages/{activity_id}/ticks")
    return [each["tick"] for each in found["ticks"]]


@requirement("G15h", "M22")
async def test_a_message_is_delivered_once_the_model_has_read_it(one: Running, state: Path) -> None:
    seat, person = await one.seat(), await one.person()
    async with agent(state, **single(one, seat)) as process:
        await process.greet()
        await seated(one, seat)
        sent = (await person.send(seat.id, "hello"))["activity_id"]

        async def look() -> list[str]:
            return await ticks_of(person, seat, sent)

        assert await eventually(look, lambda found: len(found) > 1) == ["stored", "in_inbox"]
        await process.call("wait_for_message", timeout_secs=5)
        assert await eventually(look, lambda found: len(found) > 2) == ["stored", "in_inbox", "handed_over"]


@requirement("G15h", "M22")
async def test_a_message_that_a_second_session_reads_is_delivered_too(one: Running, state: Path) -> None:
    seat, person = await one.seat(), await one.person()
    async with agent(state, **single(one, seat)) as leader, agent(state, **single(one, seat)) as second:
        await leader.greet()
        await seated(one, seat)
        await second.greet()
        sent = (await person.send(seat.id, "hello"))["activity_id"]
        message = await second.next()
        assert message["activity_id"] == sent
        last = await eventually(
            lambda: ticks_of(person, seat, sent), lambda found: "handed_over" in found, PROCESS_START_SECONDS
        )
        assert last == ["stored", "in_inbox", "handed_over"]
