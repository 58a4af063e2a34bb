"""Turns of the own engine that people watch: words as they come, a stop, and a message to be read now."""

import asyncio
from pathlib import Path
from typing import Any

from testing.running_server import Running, Seat
from testing.waits import PROCESS_START_SECONDS
from tests.agent.agent_runs import Watcher, home, living, long
from tests.agent.model_endpoint import Endpoint, Reply, endpoint

DONE = Reply("done")


async def _asked(person: Any, seat: Seat, text: str) -> str:
    """A person says something; the id of the message."""
    return str((await person.send(seat.id, text))["activity_id"])


async def _requests(at: Endpoint, count: int) -> None:
    """Until so many requests have arrived."""
    async with asyncio.timeout(PROCESS_START_SECONDS):
        while len(at.asked) < count:
            at.came.clear()
            await at.came.wait()


async def test_a_message_to_be_read_now_joins_the_turn_and_one_answer_is_sent_for_both(
    server: Running, tmp_path: Path
) -> None:
    seat, person = await server.seat("Ops"), await server.person()
    watch = Watcher(seat)
    async with endpoint() as at:
        at.answers = [Reply("A it is"), Reply("B it is"), DONE]
        at.gate = asyncio.Event()
        first = await _asked(person, seat, "A or B?")
        async with living(server, seat, home(tmp_path / "ops", at)):
            await _requests(at, 1)
            parts, metadata = [{"kind": "text", "text": "No, B."}], {"when": "steer"}
            message = {"role": "user", "messageId": "second", "parts": parts, "metadata": metadata}
            call = {"method": "message/send", "params": {"message": message}}
            second = (await person.post(f"/workspaces/{seat.id}/a2a", call))["activity_id"]
            await long(watch.types, lambda found: found.count("user_message") == 2)
            at.gate.set()
            states = await long(watch.drafts, lambda found: {each[0] for each in found.values()} == {"answered"})
            assert states.keys() == {first, second}
        page = await seat.api.get(f"/workspaces/{seat.id}/chat-history", limit=100)
        assert [each["content"] for each in page["messages"] if each["role"] != "user"] == ["B it is"]
        assert len(at.asked) == 2 and await watch.waiting() == 0


async def test_a_person_who_watches_sees_the_words_of_the_model_and_stops_it(server: Running, tmp_path: Path) -> None:
    seat, person = await server.seat("Ops"), await server.person()
    watch = Watcher(seat)
    turns = server.server.live_turns.reader
    async with endpoint() as at:
        at.answers = [Reply("I look", calls=(("c1", "list_peers", {}),)), Reply("never said")]
        message = await _asked(person, seat, "Who is there?")
        async with living(server, seat, home(tmp_path / "ops", at, beat_seconds=20)):
            await _requests(at, 1)
            at.gate = asyncio.Event()
            await _requests(at, 2)
            (turn,) = await long(lambda: turns.of_workspace(seat.id), lambda found: found and found[0].tools)
            assert (turn.activity_id, turn.text, turn.tools[0].tool) == (message, "I look", "list_peers")
            assert turn.thread_id == (await watch.all())[0]["thread_id"]
            await person.post(f"/workspaces/{seat.id}/live/stop", {"activity_id": message})
            found = await long(watch.types, lambda found: "turn_ended" in found)
            assert found.count("agent_message") == 1
            (ended,) = await long(lambda: turns.of_workspace(seat.id), lambda found: found and found[0].ended)
            assert ended.status == "stopped"
            at.gate.set()
