"""Who waits for a result over a connection, and hangs up: the result comes into its inbox, at once and once."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from molecule_core.common.errors import StoreUnavailable
from molecule_core.delegations.model import ClaimedResult, Delegation
from testing.delegation_steps import row_of
from testing.message_world import MessageWorld, handle, reply
from testing.raw_http import request, wire
from testing.running_server import Seat
from testing.waits import bounded, eventually, until_waiting
from tests.delegations.test_over_http import give, pair, work
from tests.requirements import requirement

Asking = Callable[[MessageWorld, Seat, Seat], Awaitable[bytes]]


async def by_delegate(_office: MessageWorld, lead: Seat, ops: Seat) -> bytes:
    """Gives work and waits."""
    body = {"target_id": ops.id, "task": "sort the mail", "wait": 60}
    return asked(f"/workspaces/{lead.id}/delegate", body, lead)


async def by_wait(_office: MessageWorld, lead: Seat, ops: Seat) -> bytes:
    """Waits for what was given before."""
    delegation_id = (await give(lead, ops))["delegation_id"]
    return asked(f"/workspaces/{lead.id}/delegations/{delegation_id}/wait", {"wait": 60}, lead)


async def by_message(_office: MessageWorld, lead: Seat, ops: Seat) -> bytes:
    """Sends a message that is a delegation, with patience."""
    message = {"role": "user", "parts": [{"kind": "text", "text": "sort the mail"}], "metadata": {"delegation": True}}
    body = {"jsonrpc": "2.0", "id": 7, "method": "message/send", "params": {"message": message}}
    return asked(f"/workspaces/{ops.id}/a2a", body, lead, {"X-Timeout": "60"})


def asked(path: str, body: dict[str, Any], seat: Seat, headers: dict[str, str] | None = None) -> bytes:
    """A request on the wire."""
    return request("POST", path, json.dumps(body).encode(), token=seat.token, headers=headers or {})


async def held(world: MessageWorld) -> Delegation:
    """The one delegation that there is."""
    (row,) = await world.server.server.delegations.reader.list_page(None, None, None, None, 10)
    return row


async def is_let_go(world: MessageWorld) -> Delegation:
    """Waits until nobody holds its result."""
    return await eventually(lambda: held(world), lambda row: row.wait_until == 0)


WAYS = pytest.mark.parametrize("way", [by_delegate, by_wait, by_message])


@requirement("D7", "D10")
@WAYS
async def test_who_hangs_up_while_it_waits_finds_the_result_in_the_inbox(world: MessageWorld, way: Asking) -> None:
    lead, ops = await pair(world)
    asking = await way(world, lead, ops)
    async with wire(world.server.port) as line:
        await line.send(asking)
        await until_waiting(world.server.server, 2 if way is by_message else 1)
        assert (await held(world)).wait_until > 0
    await until_waiting(world.server.server, 0)
    assert (await is_let_go(world)).open == 1  # nobody has cancelled it
    await work(world, ops)
    (row,) = await world.take(lead)  # no time has passed
    assert (row["kind"], row["response_body"]["text"]) == ("delegation_result", "sorted")
    await world.pass_time(700)
    assert len(await world.take(lead)) == 1  # not acknowledged: the same one again


@requirement("D7", "D10")
@WAYS
async def test_who_hangs_up_before_it_could_wait_holds_nothing(world: MessageWorld, way: Asking) -> None:
    """The connection goes while the command that holds the result is under way."""
    lead, ops = await pair(world)
    asking, writer = await way(world, lead, ops), world.server.server.delegations.writer
    name = "hold_result" if way is by_wait else "begin"
    gate, came, written, plain = asyncio.Event(), asyncio.Event(), asyncio.Event(), getattr(writer, name)

    async def late(*given: Any) -> Any:
        came.set()
        await gate.wait()
        found = await plain(*given)
        written.set()
        return found

    setattr(writer, name, lambda *given: asyncio.ensure_future(late(*given)))
    async with wire(world.server.port) as line:
        await line.send(asking)
        await bounded(came.wait())
        assert answering() == 1
    await nobody_answers(world)
    gate.set()
    await bounded(written.wait())
    await is_let_go(world)
    await work(world, ops)
    assert [row["kind"] for row in await world.take(lead)] == ["delegation_result"]


@requirement("M7", "D7", "D10")
@WAYS
async def test_who_waits_with_a_token_that_is_revoked_gets_nothing_and_the_result_comes_to_the_inbox(
    world: MessageWorld, way: Asking
) -> None:
    lead, ops = await pair(world)
    end_token, new = await renewed(world, lead)
    asking = await way(world, lead, ops)
    async with wire(world.server.port) as line:
        await line.send(asking)
        await until_waiting(world.server.server, 2 if way is by_message else 1)
        await end_token()
        await work(world, ops)
        told = await line.reply()
    assert (told.status, told.json["code"], b"sorted" in told.body) == (401, "invalid_credential", False)
    await is_let_go(world)
    rows = await world.server.api(new).get(f"/workspaces/{lead.id}/activity", claim=600, wait=0)
    assert [(row["kind"], row["response_body"]["text"]) for row in rows] == [("delegation_result", "sorted")]


@requirement("M7", "D7", "D10")
@WAYS
async def test_who_has_taken_the_result_gets_it_although_its_token_ends_in_that_very_moment(
    world: MessageWorld, way: Asking
) -> None:
    lead, ops = await pair(world)
    end_token, new = await renewed(world, lead)
    asking, writer = await way(world, lead, ops), world.server.server.delegations.writer
    plain = writer.claim_result

    async def take(row: Delegation, until: int) -> ClaimedResult:
        taken = await plain(row, until)
        await end_token()
        return taken

    writer.claim_result = take  # type: ignore[method-assign]
    in_hand = await world.take(ops)  # who waits for how it stands is answered as soon as somebody has it
    async with wire(world.server.port) as line:
        await line.send(asking)
        await until_waiting(world.server.server, 2 if way is by_message else 1)
        (row,) = in_hand or await world.take(ops)
        await reply(ops, handle(row), "sorted")
        told = await line.reply()
    assert (told.status < 300, b"sorted" in told.body) == (True, True), told
    rows = await world.server.api(new).get(f"/workspaces/{lead.id}/activity", claim=600, wait=0)
    assert rows == [], "it is in one place"


@requirement("M7", "D7", "D10")
async def test_whose_token_ends_before_it_could_wait_takes_nothing_of_what_is_done_already(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    end_token, new = await renewed(world, lead)
    asking, writer = await by_wait(world, lead, ops), world.server.server.delegations.writer
    plain = writer.hold_result

    async def hold(row: Delegation, seconds: int) -> int:
        await work(world, ops)
        until = await plain(row, seconds)
        await end_token()
        return until

    writer.hold_result = hold  # type: ignore[method-assign]
    async with wire(world.server.port) as line:
        await line.send(asking)
        told = await line.reply()
    assert (told.status, told.json["code"], b"sorted" in told.body) == (401, "invalid_credential", False)
    rows = await world.server.api(new).get(f"/workspaces/{lead.id}/activity", claim=600, wait=0)
    assert [(row["kind"], row["response_body"]["text"]) for row in rows] == [("delegation_result", "sorted")]


async def renewed(world: MessageWorld, seat: Seat) -> tuple[Callable[[], Awaitable[Any]], str]:
    """What ends the token of a seat, and the one that it has beside it."""
    tokens, admin = f"/workspaces/{seat.id}/tokens", world.server.admin
    (first,) = await admin.get(tokens)
    return partial(admin.call, "DELETE", f"{tokens}/{first['id']}"), (await admin.post(tokens))["auth_token"]


async def nobody_answers(world: MessageWorld) -> None:
    """Waits until nobody is at work on an answer any more: only the command goes on."""

    async def look() -> int:
        await world.clock.advance(0)
        return answering()

    await eventually(look, lambda count: count == 0)


def answering() -> int:
    """How many requests are at work."""
    return sum("object Application._" in repr(task.get_coro()) for task in asyncio.all_tasks())


@requirement("D7")
async def test_if_it_cannot_be_let_go_the_result_comes_when_the_wait_would_be_over(
    world: MessageWorld, caplog: pytest.LogCaptureFixture
) -> None:
    lead, ops = await pair(world)
    writer = world.server.server.delegations.writer

    async def fails(_row: Delegation, _until: int) -> None:
        raise StoreUnavailable

    writer.release_hold = fails  # type: ignore[method-assign,assignment]
    waiting = asyncio.create_task(give(lead, ops, wait=20))
    await until_waiting(world.server.server, 1)
    waiting.cancel()
    await until_waiting(world.server.server, 0)
    await work(world, ops)
    assert await world.take(lead) == []
    await world.pass_time(31)
    assert [row["kind"] for row in await world.take(lead)] == ["delegation_result"]
    assert [each.name for each in caplog.records if each.levelname == "WARNING"] == ["molecule.delegations"]


@requirement("D7")
async def test_a_server_that_stops_tells_who_waits_how_it_stands(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    waiting = asyncio.create_task(give(lead, ops, wait=60))
    await until_waiting(world.server.server, 1)
    world.server.server.wakeups.close()
    told = await bounded(waiting)
    assert ("settled" in told, told["state"]) == (False, "queued")
    assert (await row_of(world, told["delegation_id"])).wait_until == 0
