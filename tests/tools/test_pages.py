"""A page, or JSON of somebody else, is no success, though its status is 200: nothing counts as done by it."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest

from molecule_core.agent.acks import Acks
from molecule_core.agent.cursors import CursorFile
from molecule_core.agent.engines.conversations import Conversations
from molecule_core.agent.engines.decisions import Decisions
from molecule_core.agent.engines.mailing import Mailroom
from molecule_core.agent.engines.patience import Patience
from molecule_core.agent.engines.turning import End
from molecule_core.agent.inbox import Entry, Inbox
from molecule_core.agent.membership import Membership
from molecule_core.client.api import Api, ApiError
from molecule_core.client.threads import Threads
from molecule_core.wire import replytypes, verbs
from molecule_core.wire import tooltypes as types
from molecule_core.wire.toolspec import ToolError
from tests.agent.letters import letter
from tests.clocks import FakeClock, SeededRandomness, settle
from tests.elsewhere import other_server
from tests.journeys.patience import bounded, refused
from tests.requirements import requirement

STRANGE = ({"hello": "world"}, {"state": None, "status": 5, "last_acked_seq": "1"}, [1], None, "")


class Answering(Api):
    """A client that gets these answers, and the last one from then on."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def call(self, method: str, path: str, **more: Any) -> Any:
        self.asked.append(path)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@requirement("G7")
@pytest.mark.parametrize("status", ["200 OK", "201 Created"])
async def test_a_page_is_refused_as_a_redirect_is_and_an_empty_answer_is_none_of_it(status: str) -> None:
    async with other_server(status, "Content-Type: text/html") as other, Api(other.url, "a-token") as api:
        error = await refused(bounded(api.post("/workspaces/w/reply", {})))
        assert (error.status, error.code, error.passes) == (int(status[:3]), "", True)
        said = str(error.problem["error"])
        assert said.startswith(f"{other.url} is no Molecule server") and "PLATFORM_URL" in said
    async with other_server("204 No Content", body="") as other, Api(other.url) as api:
        assert not await bounded(api.call("DELETE", "/workspaces/w"))


@requirement("G7", "G10")
@pytest.mark.parametrize("answer", STRANGE)
async def test_a_message_is_not_acknowledged_by_what_is_no_word_of_the_server_on_it(
    answer: Any, tmp_path: Path
) -> None:
    acks, api = Acks("w", CursorFile(tmp_path, "w", single=True)), Answering(answer, {"last_acked_seq": 1})
    acks.begin(1)
    acks.handled("m-1", 1)
    assert not await acks.confirm(api, "m-1") and acks.is_pending("m-1")
    assert await acks.confirm(api, "m-1") and not acks.is_pending("m-1")


class Seat:
    """A seat of an agent's."""

    id = "w-1"

    def __init__(self, *answers: Any) -> None:
        self.client = Answering(*answers)

    def api(self) -> Api:
        return self.client


@requirement("AR4")
@pytest.mark.parametrize("answer", STRANGE)
@pytest.mark.parametrize(
    ("end", "good", "path"),
    [
        (End("completed", final="done"), {"state": "answered_outside"}, "/workspaces/w-1/messages/m-1/draft"),
        (End("failed", error="no tea"), {"status": "logged"}, "/workspaces/w-1/activity"),
    ],
)
async def test_an_agent_tells_what_became_of_a_message_again_until_the_server_has_heard_it(
    end: End, good: Any, path: str, answer: Any, clock: FakeClock, tmp_path: Path
) -> None:
    seat = Seat(answer, answer, good)
    mail = Mailroom(
        cast(Membership, seat),
        Inbox(),
        Threads(seat.api, seat.id),
        Conversations(tmp_path, seat.id),
        Decisions(),
        patience=Patience(clock, SeededRandomness()),
        settings={},
        most_tokens=None,
    )
    telling = asyncio.create_task(mail._tell(Entry(letter(activity_id="m-1", intent="request")), end))
    for _ in range(2):
        await settle()
        assert not telling.done()
        await clock.advance(30)
    await bounded(telling)
    assert seat.client.asked == [path] * 3


ANSWER = replytypes.AnswerArguments(handle="m1-abcde", text="hello")
WAYS: dict[str, Callable[[Api], Coroutine[Any, Any, Any]]] = {
    "reply": lambda api: verbs.answer(api, "w", ANSWER),
    "progress": lambda api: verbs.answer(api, "w", replytypes.AnswerArguments("m1-abcde", "hello", progress=True)),
    "decline": lambda api: verbs.decline(api, "w", replytypes.DeclineArguments(handle="m1-abcde", reason="no")),
    "to the person": lambda api: verbs.reply(api, "w", types.ReplyArguments(text="hello")),
    "to a peer": lambda api: verbs.reply(api, "w", types.ReplyArguments(text="hello", peer_id="p")),
    "pop": lambda api: verbs.pop(api, "w", types.PopArguments(activity_id="m-1")),
}


@requirement("G1")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("answer", [{"hello": "world"}, [1], ""])
async def test_a_tool_that_got_another_ones_answer_does_not_say_that_it_is_done(way: str, answer: Any) -> None:
    with pytest.raises(ToolError, match="does not know") as error:
        await bounded(WAYS[way](Answering(answer)))
    assert error.value.code == "unknown_answer"


async def test_who_is_refused_by_a_page_is_told_so_and_not_by_its_text() -> None:
    async with other_server("200 OK", body="<p>a-secret</p>") as other, Api(other.url) as api:
        with pytest.raises(ApiError) as error:
            await bounded(api.get("/ready"))
        assert "secret" not in str(error.value)
