"""What comes of the push of a delegation: an answer ends it, what passes is tried once more, what does not ends it."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from molecule_core.common.clock import SECOND
from molecule_core.common.errors import FetchFailed
from molecule_core.common.limits import Limits
from molecule_core.delegations.model import DelegationPhase, FailureReason
from molecule_core.delegations.rules import ADVICE, a2a_state
from molecule_core.messages.events import (
    DeliveryFailed,
    MessageAnswered,
    MessagesDelivered,
    PushAccepted,
    PushDeferred,
    QuestionAsked,
)
from molecule_core.messages.model import Sender
from molecule_core.wire.schemas.delegations import DelegationStatus
from testing.clocks import FakeClock
from testing.delegation_steps import told_of
from testing.engines import Engine
from testing.forbidden_urls import PUBLIC
from testing.loopback_internet import internet
from testing.message_world import MessageWorld
from testing.push_agents import Pushed, Reply, plain, said
from testing.running_server import running
from testing.waits import eventually
from tests.delegations.push_team import URL, Team, listen, team
from tests.requirements import requirement

WORKING = {"kind": "task", "id": "t", "status": {"state": "working"}}


async def ends_at_once(there: Team, one: str, code: str, detail: str) -> None:
    """It was given up for this reason with its first push, and nobody tries again."""
    assert there.of(DeliveryFailed) == [DeliveryFailed(one, code, detail, there.world.clock.now())]
    pushed = len(there.pushed)
    await there.world.pass_time(4000)
    assert len(there.pushed) == pushed
    assert there.of(PushDeferred) == []


async def letters(world: MessageWorld) -> Any:
    """All dead letters of the organisation."""
    seats = await world.person.get("/workspaces")
    found = [await world.person.get(f"/workspaces/{seat['id']}/dead-letters") for seat in seats]
    return [letter for page in found for letter in page["dead_letters"]]


# -- answers -----------------------------------------------------------------------------------------------------------


@requirement("D4", "D6", "D7")
async def test_words_answer_it_and_it_is_pushed_once(world: MessageWorld) -> None:
    there = await team(world)
    world.net.answers(URL, said("sorted"))
    now = world.clock.now()
    one = await there.gives()
    (pushed,) = there.pushed
    assert (pushed.activity, pushed.attempt, pushed.headers["idempotency-key"]) == (one, 1, one)
    assert pushed.body["params"]["message"]["metadata"]["delegation_id"] == one
    handed, answered = there.heard
    assert handed == MessagesDelivered(there.ops.id, ((one, 1),), True, now)
    assert isinstance(answered, MessageAnswered)
    assert (answered.delegation_id, answered.via, answered.declined, answered.acknowledged, answered.at) == (
        *(one, "push", False, True),
        now,
    )
    assert (answered.answer.text, answered.answer.parts) == ("sorted", [{"kind": "text", "text": "sorted"}])
    assert (answered.answer.sender, answered.answer.context_id) == (f"workspace:{there.ops.id}", one)
    (owed,) = await world.owed(there.ops)
    assert (owed["state"], owed["answer_id"]) == ("answered", answered.answer.id)
    assert await world.ticks(there.ops, one) == ["stored", "handed_over 1", "acked 1", "answered"]
    await world.pass_time(4000)
    assert len(there.pushed) == 1 and len(there.heard) == 2


@requirement("D5")
@pytest.mark.parametrize(
    "reply",
    [
        (200, {}, b'{"status":"queued","delivery_mode":"poll"}'),
        plain(202, queued=True, queue_id="q", message="queued"),
        plain(200, jsonrpc="2.0", id=1, result=WORKING),
        plain(200, jsonrpc="2.0", id=1, result={**WORKING, "artifacts": [{"parts": [{"text": "half"}]}]}),
        plain(200),
        (204, {}, b""),
    ],
)
async def test_an_agent_that_only_has_it_completes_nothing(world: MessageWorld, reply: Reply) -> None:
    there = await team(world)
    world.net.answers(URL, reply)
    one = await there.gives()
    assert there.heard[1:] == [PushAccepted(one, world.clock.now())]
    assert await world.state(there.ops, one) == "open"
    await world.pass_time(4000)
    assert len(there.pushed) == 1 and len(there.heard) == 2


@requirement("D8")
@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (plain(200, jsonrpc="2.0", id=1, error={"code": -1, "message": "I cannot"}), "I cannot"),
        (plain(200, error="I cannot"), "I cannot"),
        (plain(200, result={"status": {"state": "failed"}}), "its task has failed"),
        (plain(200, result={"status": {"state": "TASK_STATE_CANCELED"}}), "its task has been canceled"),
    ],
)
async def test_an_error_of_the_agent_ends_it(world: MessageWorld, reply: Reply, text: str) -> None:
    there = await team(world)
    world.net.answers(URL, reply)
    one = await there.gives()
    await ends_at_once(there, one, "agent_error", text)
    assert len(there.pushed) == 1
    assert await world.state(there.ops, one) == "declined"
    assert await letters(world) == []


@requirement("D8")
async def test_a_task_that_is_rejected_declines_it(world: MessageWorld) -> None:
    there = await team(world)
    message = {"parts": [{"kind": "text", "text": "not my job"}]}
    world.net.answers(URL, plain(200, result={"status": {"state": "rejected", "message": message}}))
    await there.gives()
    (answered,) = there.of(MessageAnswered)
    assert (answered.declined, answered.answer.text, answered.via) == (True, "not my job", "push")
    (owed,) = await world.owed(there.ops)
    assert (owed["state"], owed["reason"], owed["answer_id"]) == ("declined", "not my job", answered.answer.id)


@requirement("D7", "S8")
async def test_a_file_that_its_agent_may_not_send_is_told_and_the_rest_of_the_answer_counts(
    world: MessageWorld,
) -> None:
    there = await team(world)
    uri = f"/workspaces/{there.lead.id}/files/{there.lead.id}"
    files = [{"kind": "file", "file": {"uri": each}} for each in (uri, "https://files.example/a.txt")]
    result = {"kind": "message", "parts": [{"kind": "text", "text": "sorted"}, *files]}
    world.net.answers(URL, plain(200, jsonrpc="2.0", id=1, result=result))
    await there.gives()
    (answered,) = there.of(MessageAnswered)
    words, missing, elsewhere = answered.answer.parts
    assert (words["text"], elsewhere["file"]["uri"]) == ("sorted", "https://files.example/a.txt")
    assert f"the file {uri} was not found, or you have no access to it" in missing["text"]
    assert len(there.pushed) == 1


# -- what does not pass ------------------------------------------------------------------------------------------------


@requirement("D8")
@pytest.mark.parametrize("status", [302, 400, 401, 404, 410, 413])
async def test_a_refusal_ends_it_at_once_without_a_dead_letter(world: MessageWorld, status: int) -> None:
    there = await team(world)
    world.net.answers(URL, plain(status, error="go away"))
    one = await there.gives()
    await ends_at_once(there, one, "refused", f"HTTP {status}: go away")
    assert await letters(world) == []
    assert "MESSAGE_DEAD" not in {name for name, _ in await there.events()}
    assert (await world.ticks(there.ops, one))[:3] == ["stored", "handed_over 1", "dead 1 (refused)"]


@requirement("D8")
@pytest.mark.parametrize("body", [b"<html>", b'{"a":1,"a":2}', b"[" * 40 + b"]" * 40])
async def test_an_answer_that_nobody_can_read_ends_it_at_once(world: MessageWorld, body: bytes) -> None:
    there = await team(world)
    world.net.answers(URL, (200, {}, body))
    await there.gives()
    assert [fact.code for fact in there.of(DeliveryFailed)] == ["bad_answer"]
    await world.pass_time(4000)
    assert len(there.pushed) == 1


@requirement("D8")
@pytest.mark.parametrize(("status", "code"), [(302, "refused"), (200, "bad_answer"), (0, "bad_answer")])
async def test_an_answer_that_the_fetcher_throws_away_ends_it_at_once(
    world: MessageWorld, status: int, code: str
) -> None:
    there = await team(world)
    world.net.breaks(URL, "too much of it", sent=True, status=status)
    one = await there.gives()
    await ends_at_once(there, one, code, "too much of it")
    assert await letters(world) == []


@requirement("D16")
async def test_an_agent_without_a_url_ends_it_at_once(world: MessageWorld) -> None:
    there = await team(world)
    registry = world.server.server.registry
    registry.put_workspace(replace(registry.active_workspace(there.ops.id), url=None))
    one = await there.gives()
    await ends_at_once(there, one, "unsafe_url", "this workspace has no url")
    assert world.net.pushed == []


@requirement("D16", "S6")
async def test_a_name_that_has_moved_inside_since_is_never_asked(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with internet() as net:
        net.names["ops.example"] = PUBLIC[:1]
        fetcher = net.fetcher()
        async with running(engine, place, tmp_path, clock=clock, fetcher=fetcher) as server:
            world = MessageWorld(server, await server.person(), clock, None)  # type: ignore[arg-type]
            lead = await server.seat("Lead")
            ops = await server.seat("Ops", delivery_mode="push", url=URL)
            there = Team(world, lead, ops, listen(world))
            net.names["ops.example"] = ("127.0.0.1",)
            await there.gives()
        (given_up,) = there.of(DeliveryFailed)
        assert (given_up.code, net.canary.hits, net.reached) == ("unsafe_url", 0, [])
        assert "ops.example" in given_up.detail and "/a2a" not in given_up.detail


# -- what passes -------------------------------------------------------------------------------------------------------

TRANSIENT: list[tuple[Reply | None, str]] = [
    (plain(502), "HTTP 502"),
    (plain(503, error="soon", restarting=True), "restarting (HTTP 503)"),
    (plain(500, error="oh"), "HTTP 500: oh"),
    (plain(504), "HTTP 504"),
    (plain(408), "HTTP 408"),
    (None, "nobody there"),
]


@requirement("D8")
@pytest.mark.parametrize(("reply", "error"), TRANSIENT)
async def test_what_may_pass_is_tried_once_more_after_eight_seconds_and_then_given_up(
    world: MessageWorld, reply: Reply | None, error: str
) -> None:
    there = await team(world)
    if reply is not None:
        world.net.answers(URL, reply)
    begun = world.clock.now()
    one = await there.gives()
    assert there.heard[1:] == [PushDeferred(one, False, error, there.behind(8), begun)]
    await world.pass_time(7.9)
    assert len(world.net.pushed) == 1
    await world.pass_time(0.2)
    assert [(each.activity, each.attempt) for each in world.net.pushed] == [(one, 1), (one, 2)]
    assert there.heard[2:] == [
        MessagesDelivered(there.ops.id, ((one, 2),), True, world.clock.now()),
        DeliveryFailed(one, "unreachable", error, world.clock.now()),
    ]
    await world.pass_time(4000)
    assert len(world.net.pushed) == 2 and len(there.heard) == 4
    assert await letters(world) == []


@requirement("D8")
@pytest.mark.parametrize(("reply", "_error"), TRANSIENT[:2])
async def test_the_second_push_is_as_good_as_the_first(world: MessageWorld, reply: Reply, _error: str) -> None:
    there = await team(world)
    world.net.answers(URL, reply, said("sorted"))
    one = await there.gives()
    await world.pass_time(8.1)
    assert [fact.answer.text for fact in there.of(MessageAnswered)] == ["sorted"]
    assert there.of(DeliveryFailed) == []
    assert [each.headers["idempotency-key"] for each in there.pushed] == [one, one]


@requirement("D8", "M22")
async def test_one_in_retry_holds_up_what_stands_behind_it_for_its_pause_only(world: MessageWorld) -> None:
    there = await team(world)
    world.net.answers(URL, plain(502), plain(502), said("done"))
    one = await there.gives()
    asked = await world.ask(there.ops, "a question")
    await world.pass_time(7.9)
    assert [each.activity for each in there.pushed] == [one]
    await world.pass_time(0.2)
    await world.stands(there.ops, asked, "answered")
    assert [each.activity for each in there.pushed] == [one, one, asked]
    assert [fact.code for fact in there.of(DeliveryFailed)] == ["unreachable"]


@requirement("D17", "M21")
async def test_a_plain_message_to_the_same_agent_is_tried_as_ever_and_nothing_rises_of_it(world: MessageWorld) -> None:
    there = await team(world)
    asked = await world.ask(there.ops, "a question", by=there.lead)
    for _ in range(12):
        await world.pass_time(301)
    assert len(world.net.pushed) == 12
    (letter,) = await letters(world)
    assert (letter["activity_id"], letter["reason"]) == (asked, "unreachable")
    assert there.heard == []


# -- how it stands then ------------------------------------------------------------------------------------------------

# Who has not taken it has declined nothing.
NOBODY_OWES = ""
ENDS: list[tuple[Reply, FailureReason, str]] = [
    (plain(404, error="go away"), FailureReason.REFUSED, NOBODY_OWES),
    ((200, {}, b"<html>"), FailureReason.BAD_ANSWER, NOBODY_OWES),
    (plain(200, error="I cannot"), FailureReason.AGENT_ERROR, "declined"),
    (plain(200, result={"status": {"state": "rejected"}}), FailureReason.REJECTED, "declined"),
]


@requirement("D1", "D4", "D7", "D8")
@pytest.mark.parametrize(("reply", "reason", "owed"), ENDS, ids=[reason for _, reason, _ in ENDS])
async def test_what_will_not_pass_fails_with_its_reason_and_tells_the_caller_once(
    world: MessageWorld, reply: Reply, reason: FailureReason, owed: str
) -> None:
    there = await team(world)
    world.net.answers(URL, reply)
    one = await there.gives()
    row = await there.row(one)
    assert (row.status, row.phase, row.reason, row.open, row.attempt) == (
        DelegationStatus.FAILED,
        DelegationPhase.ENDED,
        reason,
        0,
        1,
    )
    assert (await there.told(one))[-2:] == ["queued/sending", reason]
    (result,) = [each for each in await world.take(there.lead) if each["kind"] == "delegation_result"]
    told = result["response_body"]
    assert (result["status"], told["status"], told["reason"]) == ("failed", "failed", reason)
    assert ADVICE[reason] in told["text"]
    assert await world.state(there.ops, one) == owed


@requirement("D1", "D8")
async def test_two_failures_that_might_have_passed_fail_it_as_unreachable(world: MessageWorld) -> None:
    there = await team(world)
    one = await there.gives()
    row = await there.row(one)
    assert (row.status, row.phase, row.taken_at) == (DelegationStatus.QUEUED, DelegationPhase.RETRYING, None)
    await world.pass_time(8.1)
    row = await there.row(one)
    assert (row.status, row.reason, row.error, row.attempt) == (
        DelegationStatus.FAILED,
        FailureReason.UNREACHABLE,
        "nobody there",
        2,
    )
    assert (await there.told(one))[-4:] == ["queued/sending", "queued/retrying", "queued/sending", "unreachable"]
    assert await world.state(there.ops, one) == NOBODY_OWES


@requirement("D7", "D8")
@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_refusal_that_comes_behind_the_lease_of_its_push_is_one_end(
    world: MessageWorld, cancelled: bool
) -> None:
    there = await team(world)

    async def answer(pushed: Pushed) -> Reply:
        world.clock.at += 400 * SECOND  # the server stands still: nobody else has a turn
        if cancelled:
            world.net.answers(URL, plain(200))  # it is told
            row = await there.row(pushed.activity)
            by = Sender(f"workspace:{there.lead.id}", there.lead.id, None, None)
            await world.server.server.delegations.writer.cancel(row, by, "not wanted")
        return plain(404, error="go away")

    world.net.agents[URL] = answer
    one = await there.give()
    row = await eventually(lambda: there.row(one), lambda row: row.status.is_ended)
    await world.rest()
    assert row.reason is (FailureReason.CANCELLED if cancelled else FailureReason.REFUSED)
    # It may have been sent once more, to an agent that nobody had heard of for so long.
    words = [tick.split()[0] for tick in await world.ticks(there.ops, one)]
    end = ["acked", "declined"] if cancelled else ["dead"]
    assert sorted(word for word in words if word not in ("stored", "handed_over")) == end


@requirement("D5", "P5")
async def test_an_agent_that_has_it_is_at_work_and_the_row_says_so(world: MessageWorld) -> None:
    there = await team(world)
    world.net.answers(URL, plain(202, queued=True))
    one = await there.gives()
    row = await there.row(one)
    assert (row.status, row.phase, row.open, a2a_state(row)) == (
        DelegationStatus.QUEUED,
        DelegationPhase.CLAIMED,
        1,
        "working",
    )
    assert row.taken_at == world.clock.now()


@requirement("D16", "D7")
async def test_a_url_that_may_not_be_called_is_told_with_its_reason_and_no_request(world: MessageWorld) -> None:
    there = await team(world)
    registry = world.server.server.registry
    registry.put_workspace(replace(registry.active_workspace(there.ops.id), url=None))
    one = await there.gives()
    row = await there.row(one)
    assert (row.status, row.reason, world.net.pushed) == (DelegationStatus.FAILED, FailureReason.UNSAFE_URL, [])
    name, payload = (await told_of(world, one))[-1]
    advice = ADVICE[FailureReason.UNSAFE_URL]
    assert (name, payload["reason"], payload["advice"]) == ("DELEGATION_FAILED", "unsafe_url", advice)


# -- any of it, in any order -------------------------------------------------------------------------------------------

SORTS: dict[str, tuple[Reply, ...]] = {
    "busy": (plain(503), plain(429), plain(503, waking=True)),
    "passes": (plain(502), plain(503, restarting=True), plain(408), plain(500)),
    "unsure": (plain(599),),
    "refused": (plain(404), plain(302)),
    "bad_answer": ((200, {}, b"<html>"),),
    "agent_error": (
        plain(200, error="no"),
        plain(200, result={"status": {"state": "failed"}}),
        plain(200, result={"status": {"state": "completed"}}),
    ),
    "accepted": (plain(202, queued=True), plain(200, result=WORKING), plain(200)),
    "asked": (plain(200, result={"status": {"state": "input-required"}}),),
    "answered": (said("sorted"),),
    "declined": (plain(200, result={"status": {"state": "rejected"}}),),
}


def expected(script: list[str]) -> tuple[str, int]:
    """What is heard last of a delegation whose agent answers like this, and behind how many pushes."""
    failures = 0
    for pushes, sort in enumerate(script, 1):
        failures += sort == "passes"
        if failures == 2:
            return "unreachable", pushes
        if sort not in ("busy", "passes"):
            return sort, pushes
    raise AssertionError(script)


def named(fact: Any) -> str:
    """What was heard, in the words of the model."""
    if isinstance(fact, DeliveryFailed):
        return fact.code
    if isinstance(fact, MessageAnswered):
        return "declined" if fact.declined else "answered"
    if isinstance(fact, QuestionAsked):
        return "asked"
    return "accepted" if isinstance(fact, PushAccepted) else "unsure"


@requirement("D5", "D7", "D8")
@pytest.mark.parametrize("seed", range(4))
async def test_whatever_its_agent_answers_it_comes_to_what_the_policy_says(world: MessageWorld, seed: int) -> None:
    there = await team(world)
    world.server.server.delivery.push_dispatcher._limits = Limits(circuit_failures=10**6)
    chance = Random(seed)
    for number in range(8):
        script = [chance.choice(["busy", "busy", "passes"]) for _ in range(chance.randrange(5))]
        script.append(chance.choice([sort for sort in SORTS if sort not in ("busy", "passes")]))
        left = [chance.choice(SORTS[sort]) for sort in script]

        async def answer(pushed: Pushed, left: list[Reply] = left) -> Reply:
            if pushed.body["params"]["message"]["metadata"]["kind"] != "delegation":
                return plain(200)  # it is told that nobody waits any more
            reply = left.pop(0)
            if reply[0] == SORTS["unsure"][0][0]:
                raise FetchFailed(reason="broken", sent=True, status=None)
            return reply

        world.net.agents[URL] = answer
        there.heard.clear()
        one = await there.gives(f"task {number}")
        for _ in range(len(script) + 2):
            await world.pass_time(31)
        end, pushes = expected(script)
        assert named(there.heard[-1]) == end, script
        assert [each.attempt for each in there.pushed if each.activity == one] == list(range(1, pushes + 1)), script
        between = [fact.busy for fact in there.of(PushDeferred)]
        assert between == [sort == "busy" for sort in script[: pushes - 1]], script
