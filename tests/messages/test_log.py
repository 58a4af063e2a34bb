"""A workspace's log: what is in it and what of it is inbox, when it is full, how it is paged, filtered and chatted."""

import asyncio
from pathlib import Path
from typing import Any

from molecule_core.common.limits import Limits
from testing.engines import Engine
from testing.raw_http import wire
from testing.running_server import running
from testing.waits import bounded, refused
from tests.polling_agent import PollingAgent, ids
from tests.requirements import requirement

UNKNOWN = "01900000-0000-7000-8000-000000000000"


# -- what is in an inbox -----------------------------------------------------------------------------------------------


@requirement("M19", "M16")
async def test_what_a_workspace_itself_did_is_in_its_log_and_never_in_its_inbox(poller: PollingAgent) -> None:
    path = f"/workspaces/{poller.ops.id}"
    before = await poller.say("1")
    await poller.ops.api.post(f"{path}/notify", {"message": "to the user"})
    await poller.ops.api.post(f"{path}/activity", {"activity_type": "agent_log", "summary": "thinking"})
    lead = await poller.server.seat("Lead")
    await poller.ops.api.send(lead.id, "to a peer")
    after = await poller.say("2")

    log = await poller.read()
    assert ids(await poller.claim()) == [before, after]
    assert ids(await poller.read(type="a2a_receive")) == [after, before]
    assert ids(await poller.read(type="a2a_receive", since_id=before)) == [after]
    assert [row["summary"] for row in reversed(log)] == ["1", "to the user", "thinking", "2"]
    assert [row["seq"] for row in reversed(log)] == [1, 2, 3, 4]


@requirement("M15", "O2")
async def test_a_full_inbox_answers_429_until_its_agent_has_caught_up(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    async with running(engine, place, tmp_path, limits=Limits(inbox_unhandled=3)) as server:
        ops, person = await server.seat("Ops"), await server.person()
        for number in range(3):
            await person.send(ops.id, str(number), message_id=f"m-{number}")

        full = await refused(person.send(ops.id, "one too many"))
        again = await person.send(ops.id, "2", message_id="m-2")
        (row, *_) = await ops.api.claim(ops.id)
        still_full = await refused(person.send(ops.id, "one too many"))
        await ops.api.ack(ops.id, row)
        healed = await person.send(ops.id, "now there is room")
        full_again = await refused(person.send(ops.id, "one too many"))

        assert (full.status, full.code, full.problem["retry_after"]) == (429, "inbox_full", 30)
        assert again["status"] == healed["status"] == "queued"
        assert (still_full.status, full_again.status) == (429, 429)


@requirement("M15", "O2")
async def test_retry_after_of_a_full_inbox_is_a_header_too(engine: Engine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path, limits=Limits(inbox_unhandled=1)) as server:
        ops, lead = await server.seat("Ops"), await server.seat("Lead")
        await lead.api.send(ops.id, "1")
        body = {"params": {"message": {"content": "2"}}}
        async with wire(server.port) as connection:
            reply = await connection.ask("POST", f"/workspaces/{ops.id}/a2a", body, token=lead.token)

        assert (reply.status, reply.headers["retry-after"]) == (429, "30")


@requirement("M15", "O2")
async def test_a_burst_never_puts_more_into_an_inbox_than_its_limit(engine: Engine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path, limits=Limits(inbox_unhandled=5)) as server:
        ops, person = await server.seat("Ops"), await server.person()

        burst = (person.send(ops.id, str(number)) for number in range(40))
        answers = await bounded(asyncio.gather(*burst, return_exceptions=True))

        taken = [answer for answer in answers if isinstance(answer, dict)]
        claimed = await ops.api.claim(ops.id, wait=0)
        assert len(taken) == len(claimed) == 5


@requirement("M15", "O2")
async def test_acks_out_of_order_make_room_in_a_full_inbox(engine: Engine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path, limits=Limits(inbox_unhandled=2)) as server:
        ops, person = await server.seat("Ops"), await server.person()
        await person.send(ops.id, "1")
        await person.send(ops.id, "2")
        _, second = await ops.api.claim(ops.id)
        await ops.api.ack(ops.id, second)

        await person.send(ops.id, "3")
        full = await refused(person.send(ops.id, "4"))

        assert full.status == 429


# -- pages and filters -------------------------------------------------------------------------------------------------


@requirement("M17", "O2")
async def test_limit_is_100_if_not_said_and_never_more_than_the_page_limit(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    async with running(engine, place, tmp_path, limits=Limits(page_rows=110)) as server:
        ops, person = await server.seat("Ops"), await server.person()
        await asyncio.gather(*(person.send(ops.id, str(number)) for number in range(115)))

        async def count(**query: Any) -> int:
            return len(await ops.api.get(f"/workspaces/{ops.id}/activity", **query))

        assert await count() == 100
        assert await count(limit=500) == 110
        assert await count(limit=99_999_999_999) == 110
        assert await count(limit=7) == 7
        for bad in ("0", "-1", "many", "1.5", ""):
            assert (await refused(count(limit=bad))).status == 422, bad


@requirement("M17", "O2")
async def test_a_page_ends_at_its_bytes_and_the_next_one_goes_on_there(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    async with running(engine, place, tmp_path, limits=Limits(page_bytes=10_000)) as server:
        ops, person = await server.seat("Ops"), await server.person()
        sent = [(await person.send(ops.id, "x" * 4000))["activity_id"] for _ in range(7)]
        path = f"/workspaces/{ops.id}/activity"

        newest = await ops.api.get(path)
        pages, cursor = [[sent[0]]], sent[0]
        while page := ids(await person.get(path, since_id=cursor)):
            pages.append(page)
            cursor = page[-1]

        assert ids(newest) == sent[: -len(newest) - 1 : -1]
        assert 1 < len(newest) < 7
        assert [each for page in pages for each in page] == sent
        assert all(len(page) <= 3 for page in pages)
        assert len(await ops.api.claim(ops.id)) <= 3


@requirement("M17", "O2")
async def test_a_row_larger_than_a_page_is_a_page_of_its_own(engine: Engine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path, limits=Limits(page_bytes=100)) as server:
        ops, person = await server.seat("Ops"), await server.person()
        sent = [(await person.send(ops.id, "x" * 1000))["activity_id"] for _ in range(3)]

        claimed = [ids(await ops.api.claim(ops.id)) for _ in range(3)]

        assert claimed == [[each] for each in sent]


@requirement("M17")
async def test_filters_narrow_by_type_source_and_peer(poller: PollingAgent) -> None:
    lead, other = await poller.server.seat("Lead"), await poller.server.seat("Other")
    from_person = await poller.say("from a person")
    from_lead = (await lead.api.send(poller.ops.id, "from the lead"))["activity_id"]
    from_other = (await other.api.send(poller.ops.id, "from another"))["activity_id"]
    path = f"/workspaces/{poller.ops.id}"
    notice = (await poller.ops.api.post(f"{path}/notify", {"message": "to the user"}))["activity_id"]

    assert ids(await poller.read(type="a2a_receive", source="canvas")) == [from_person]
    assert ids(await poller.read(type="a2a_receive", source="agent")) == [from_other, from_lead]
    assert ids(await poller.read(peer_id=lead.id)) == [from_lead]
    assert ids(await poller.read(type="a2a_send")) == [notice]
    assert ids(await poller.read(type="skill_promotion")) == []
    assert ids(await poller.read(type="a2a_receive", source="agent", since_id=from_lead)) == [from_other]
    assert (await refused(poller.read(source="nobody"))).status == 422


@requirement("M17")
async def test_filters_narrow_by_time(poller: PollingAgent) -> None:
    old = await poller.say("old")
    await poller.clock.advance(100)
    new = await poller.say("new")
    (newest, oldest) = await poller.read()

    assert ids(await poller.read(since_secs=30)) == [new]
    assert ids(await poller.read(since_secs=101)) == [new, old]
    assert ids(await poller.read(since_secs=10**18)) == [new, old]
    assert ids(await poller.read(before_ts=newest["created_at"])) == [old]
    assert ids(await poller.read(before_ts=oldest["created_at"])) == []
    assert ids(await poller.read(before_ts="2100-01-01T00:00:00+02:00")) == [new, old]
    assert ids(await poller.read(before_ts="0001-01-01T00:00:00Z")) == []
    for bad in ("yesterday", "2026-11-21", "2026-11-21T10:00:00", "99999-01-01T00:00:00Z"):
        assert (await refused(poller.read(before_ts=bad))).status == 422, bad
    for bad in ("0", "-5", "NaN", "1e3"):
        assert (await refused(poller.read(since_secs=bad))).status == 422, bad


@requirement("M17", "S13")
async def test_a_cursor_of_another_workspace_is_gone_not_wrong(poller: PollingAgent) -> None:
    other = await poller.server.seat("Other")
    foreign = (await poller.person.send(other.id, "hi"))["activity_id"]

    errors = [
        await refused(poller.read(since_id=cursor)) for cursor in (foreign, UNKNOWN, "nonsense", "0", "'; --", "ü")
    ]

    assert [(error.status, error.code) for error in errors] == [(410, "cursor_gone")] * 6
    assert len({error.problem["error"] for error in errors}) == 1
    assert await poller.read(since_id="") == []  # no cursor at all


@requirement("S14")
async def test_a_strange_report_does_not_break_reading_the_log(poller: PollingAgent) -> None:
    bodies: list[Any] = [
        {"file": 1, "params": []},
        {"file": 1, "params": {"message": {"parts": 5}}},
        {"file": 1, "params": {"message": []}},
        {"params": {"message": {"parts": [{"kind": "file", "file": {"uri": [], "name": {}, "size": "big"}}]}}},
        ["file"],
        "file",
        5,
    ]
    for body in bodies:
        report = {"activity_type": "agent_log", "request_body": body, "response_body": body}
        await poller.ops.api.post(f"/workspaces/{poller.ops.id}/activity", report)

    rows = await poller.read(include="peer_info")

    assert [row["request_body"] for row in reversed(rows)] == bodies


# -- chat --------------------------------------------------------------------------------------------------------------


async def chat(poller: PollingAgent, **query: Any) -> tuple[list[str], bool]:
    page = await poller.person.get(f"/workspaces/{poller.ops.id}/chat-history", **query)
    return [line["content"] for line in page["messages"]], page["reached_end"]


@requirement("M35")
async def test_chat_shows_what_user_and_agent_said_and_nothing_else(poller: PollingAgent) -> None:
    lead = await poller.server.seat("Lead")
    await poller.say("hi")
    await lead.api.send(poller.ops.id, "between agents")
    file = {"uri": "https://files.example/a.png", "name": "a.png"}
    await poller.ops.api.post(f"/workspaces/{poller.ops.id}/notify", {"message": "look", "attachments": [file]})

    page = await poller.person.get(f"/workspaces/{poller.ops.id}/chat-history")

    said, shown = page["messages"]
    assert (said["role"], said["content"], said["user"]) == ("user", "hi", "A operator")
    assert (shown["role"], shown["content"]) == ("agent", "look")
    assert shown["attachments"] == [{"kind": "file", **file}]
    assert page["reached_end"] is True


@requirement("M35")
async def test_chat_pages_back_to_its_beginning_and_forward_to_its_end(poller: PollingAgent) -> None:
    lines = []
    for number in range(7):
        lines.append(str(number))
        await poller.say(str(number))
        await poller.clock.advance(1)

    page = await poller.person.get(f"/workspaces/{poller.ops.id}/chat-history", limit=3)
    back, ends = [[line["content"] for line in page["messages"]]], [page["reached_end"]]
    while not page["reached_end"]:
        before = page["messages"][0]["timestamp"]
        page = await poller.person.get(f"/workspaces/{poller.ops.id}/chat-history", limit=3, before_ts=before)
        back.append([line["content"] for line in page["messages"]])
        ends.append(page["reached_end"])
    first = page["messages"][0]["id"]

    assert back == [["4", "5", "6"], ["1", "2", "3"], ["0"]]
    assert ends == [False, False, True]
    assert await chat(poller, after=first, limit=3) == (["1", "2", "3"], False)
    assert await chat(poller, after=first, limit=6) == (lines[1:], True)
    assert await chat(poller, limit=7) == (lines, True)


@requirement("M35")
async def test_chat_behind_its_last_line_is_empty_and_at_its_end(poller: PollingAgent) -> None:
    last = await poller.say("only")

    assert await chat(poller, after=last) == ([], True)
    assert await chat(poller, before_ts="2000-01-01T00:00:00Z") == ([], True)
    assert (await refused(chat(poller, after=UNKNOWN))).status == 410


@requirement("M35")
async def test_a_chat_page_that_ended_at_its_bytes_has_not_reached_the_end(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    async with running(engine, place, tmp_path, limits=Limits(page_bytes=5_000)) as server:
        ops, person = await server.seat("Ops"), await server.person()
        for _ in range(4):
            await person.send(ops.id, "x" * 4000)

        page = await person.get(f"/workspaces/{ops.id}/chat-history", limit=100)

        assert 1 <= len(page["messages"]) < 4
        assert page["reached_end"] is False
