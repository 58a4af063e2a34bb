"""A page, or JSON of somebody else, is no success, though its status is 200: nothing counts as done by it."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest

from molecule_core.agent.engines.approval_cache import DecisionCache
from molecule_core.agent.engines.conversations import Conversations
from molecule_core.agent.engines.mail_loop import MailLoop
from molecule_core.agent.engines.retry import PersistentRetry
from molecule_core.agent.engines.turn_planner import EndStep
from molecule_core.agent.mailbox.acks import AckTracker
from molecule_core.agent.mailbox.cursors import CursorFile
from molecule_core.agent.mailbox.inbox import InboxEntry, MergedInbox
from molecule_core.agent.mailbox.membership import Membership
from molecule_core.client.api import ApiClient, ApiError
from molecule_core.client.threads import ThreadsClient
from molecule_core.tools.runners import message_tools
from molecule_core.tools.schemas import messages as types
from molecule_core.tools.schemas import replies
from molecule_core.tools.spec import ToolError
from testing.clocks import FakeClock, SeededRandomness, settle
from testing.waits import bounded, refused
from tests.agent.inbox_messages import letter
from tests.other_servers import other_server
from tests.requirements import requirement

STRANGE = ({"hello": "world"}, {"state": None, "status": 5, "last_acked_seq": "1"}, [1], None, "")


class Answering(ApiClient):
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
    async with other_server(status, "Content-Type: text/html") as other, ApiClient(other.url, "a-token") as api:
        error = await refused(bounded(api.post("/workspaces/w/reply", {})))
        assert (error.status, error.code, error.is_transient) == (int(status[:3]), "", True)
        said = str(error.problem["error"])
        assert said.startswith(f"{other.url} is not a Molecule server") and "PLATFORM_URL" in said
    async with other_server("204 No Content", body="") as other, ApiClient(other.url) as api:
        assert not await bounded(api.call("DELETE", "/workspaces/w"))


@requirement("G7", "G10")
@pytest.mark.parametrize("answer", STRANGE)
async def test_a_message_is_not_acknowledged_by_what_is_no_word_of_the_server_on_it(
    answer: Any, tmp_path: Path
) -> None:
    acks, api = AckTracker("w", CursorFile(tmp_path, "w", single=True)), Answering(answer, {"last_acked_seq": 1})
    acks.take_over(1)
    acks.mark_handled("m-1", 1)
    assert not await acks.confirm_ack(api, "m-1") and acks.is_pending("m-1")
    assert await acks.confirm_ack(api, "m-1") and not acks.is_pending("m-1")


class Seat:
    """A seat of an agent's."""

    id = "w-1"

    def __init__(self, *answers: Any) -> None:
        self.client = Answering(*answers)

    def api(self) -> ApiClient:
        return self.client


@requirement("AR4")
@pytest.mark.parametrize("answer", STRANGE)
@pytest.mark.parametrize(
    ("end", "good", "path"),
    [
        (EndStep("completed", final="done"), {"state": "answered_outside"}, "/workspaces/w-1/messages/m-1/draft"),
        (EndStep("failed", error="no tea"), {"status": "logged"}, "/workspaces/w-1/activity"),
    ],
)
async def test_an_agent_tells_what_became_of_a_message_again_until_the_server_has_heard_it(
    end: EndStep, good: Any, path: str, answer: Any, clock: FakeClock, tmp_path: Path
) -> None:
    seat = Seat(answer, answer, good)
    mail = MailLoop(
        cast(Membership, seat),
        MergedInbox(),
        ThreadsClient(seat.api, seat.id),
        Conversations(tmp_path, seat.id),
        DecisionCache(),
        retry=PersistentRetry(clock, SeededRandomness()),
        settings={},
        max_tokens=None,
    )
    telling = asyncio.create_task(mail._report_end(InboxEntry(letter(activity_id="m-1", intent="request")), end, "m-1"))
    for _ in range(2):
        await settle()
        assert not telling.done()
        await clock.advance(30)
    await bounded(telling)
    assert seat.client.asked == [path] * 3


ANSWER = replies.ReplyByHandleArguments(handle="m1-abcde", text="hello")
WAYS: dict[str, Callable[[ApiClient], Coroutine[Any, Any, Any]]] = {
    "reply": lambda api: message_tools.reply_by_handle(api, "w", ANSWER),
    "progress": lambda api: message_tools.reply_by_handle(
        api, "w", replies.ReplyByHandleArguments("m1-abcde", "hello", progress=True)
    ),
    "decline": lambda api: message_tools.decline_by_handle(
        api, "w", replies.DeclineArguments(handle="m1-abcde", reason="no")
    ),
    "to the person": lambda api: message_tools.reply_to_workspace(
        api, "w", types.ReplyToWorkspaceArguments(text="hello")
    ),
    "to a peer": lambda api: message_tools.reply_to_workspace(
        api, "w", types.ReplyToWorkspaceArguments(text="hello", peer_id="p")
    ),
    "pop": lambda api: message_tools.ack_message(api, "w", types.InboxPopArguments(activity_id="m-1")),
}


@requirement("G1")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("answer", [{"hello": "world"}, [1], ""])
async def test_a_tool_that_got_another_ones_answer_does_not_say_that_it_is_done(way: str, answer: Any) -> None:
    with pytest.raises(ToolError, match="response is unknown") as error:
        await bounded(WAYS[way](Answering(answer)))
    assert error.value.code == "unknown_answer"


async def test_who_is_refused_by_a_page_is_told_so_and_not_by_its_text() -> None:
    async with other_server("200 OK", body="<p>a-secret</p>") as other, ApiClient(other.url) as api:
        with pytest.raises(ApiError) as error:
            await bounded(api.get("/ready"))
        assert "secret" not in str(error.value)
