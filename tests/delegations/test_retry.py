"""Begun once more, a delegation is the same task: with its files, and the same as whoever gives it anew gives."""

from typing import Any

from testing.delegation_steps import over, row_of
from testing.message_world import MessageWorld
from testing.raw_http import ask
from testing.running_server import Seat
from testing.upload_forms import place_of, uploaded
from tests.delegations.test_ends import cancel
from tests.delegations.test_over_http import give, pair
from tests.requirements import requirement


async def retried(source: Seat, delegation_id: str) -> dict[str, Any]:
    """What has ended, begun once more."""
    told: dict[str, Any] = await source.api.post(f"/workspaces/{source.id}/delegations/{delegation_id}/retry")
    return told


async def parts_in(world: MessageWorld, seat: Seat, delegation_id: str) -> list[dict[str, Any]]:
    """What an agent gets with a task."""
    (row,) = [row for row in await world.take(seat) if row["id"] == delegation_id]
    found: list[dict[str, Any]] = row["request_body"]["params"]["message"]["parts"]
    return found


@requirement("D8", "M35")
async def test_the_files_of_a_task_come_again_and_can_be_read(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    (file,) = await uploaded(world.server, ops.id, lead.token, ("a.txt", b"hello"))
    elsewhere = {"uri": "https://files.example/b.txt", "name": "b.txt"}
    told = await give(lead, ops, "read these", attachments=[file, elsewhere])
    first = await parts_in(world, ops, told["delegation_id"])
    assert [part["kind"] for part in first] == ["text", "file", "file"]
    ids = [told["delegation_id"]]
    for _ in range(2):
        await cancel(world, lead, ids[-1])
        told = await retried(lead, ids[-1])
        assert (told["retry_of"], told.get("idempotent_hit", False)) == (ids[-1], False)
        ids.append(told["delegation_id"])
        assert await parts_in(world, ops, ids[-1]) == first
    read = await ask(world.server.port, "GET", place_of(file), token=ops.token)
    assert (read.status, read.body) == (200, b"hello")
    assert [(await row_of(world, each)).task_hash for each in ids[1:]] == [(await row_of(world, ids[0])).task_hash] * 2


@requirement("D8", "D9")
async def test_who_gives_the_same_anew_gets_what_was_begun_once_more(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    (file,) = await uploaded(world.server, ops.id, lead.token, ("a.txt", b"hello"))
    given: dict[str, Any] = {"task": "read this", "attachments": [{"uri": file["uri"]}]}
    first = await give(lead, ops, **given)
    await cancel(world, lead, first["delegation_id"])
    await over(world, first["delegation_id"])
    again = await retried(lead, first["delegation_id"])
    for told in (await give(lead, ops, **given), await retried(lead, first["delegation_id"])):
        assert (told["delegation_id"], told["idempotent_hit"]) == (again["delegation_id"], True)
    other = await give(lead, ops, "read this")
    assert other["delegation_id"] != again["delegation_id"]
