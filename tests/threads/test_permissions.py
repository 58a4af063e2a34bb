"""Who may change what a thread may do: a child never has more than its parent, and an agent only takes away."""

from typing import Any

import pytest

from molecule_core.client.api import ApiClient
from testing.running_server import Seat
from testing.thread_world import Item, ThreadWorld
from testing.waits import bounded, refused
from tests.requirements import requirement
from tests.threads.test_limits import spawn

OWN: dict[str, Any] = {
    "tools": ["read", "search", "write"],
    "permissions": {"allow": ["read", "sea*"], "deny": ["write"], "ask": ["search"]},
}
WIDER: list[dict[str, Any]] = [
    {"tools": ["read", "mail"]},
    {"permissions": {}},
    {"permissions": {"allow": ["*"], "deny": ["write"], "ask": ["search"]}},
    {"permissions": {"allow": ["read"], "deny": [], "ask": ["search"]}},
    {"permissions": {"allow": ["read"], "deny": ["write"]}},
    {"permissions": {**OWN["permissions"], "sandbox": "off"}},
    {"permissions": {**OWN["permissions"], "allow": "read"}},
]
NARROWER: list[dict[str, Any]] = [
    {"tools": []},
    {"tools": ["read"]},
    {"permissions": {"allow": ["search"], "deny": ["write", "read"], "ask": ["search", "read"]}},
    {"permissions": {"allow": ["seat*"], "deny": ["write"], "ask": ["search"]}},
]


async def started(world: ThreadWorld) -> tuple[Seat, Item]:
    """A thread with little."""
    seat = await world.server.seat()
    body = {"base_instructions": "You count.", **OWN}
    return seat, await bounded(seat.api.post(f"/workspaces/{seat.id}/threads", body))


async def change(api: ApiClient, thread: Item, verb: str, settings: Item) -> Item:
    """A fork or a resumed thread with other settings."""
    found: Item = await bounded(api.post(f"/threads/{thread['thread_id']}/{verb}", settings))
    return found


async def expect_no_change(api: ApiClient, thread: Item, verb: str, settings: Item) -> None:
    """Refused, and the thread is as it was."""
    error = await refused(change(api, thread, verb, settings))
    assert (error.status, error.code) == (403, "wider_permissions"), error
    assert "more than" in str(error)


@requirement("AU2")
@pytest.mark.parametrize("verb", ["fork", "resume"])
async def test_an_agent_gives_its_threads_less_and_never_more(world: ThreadWorld, verb: str) -> None:
    seat, thread = await started(world)
    for settings in WIDER:
        await expect_no_change(seat.api, thread, verb, settings)
    for settings in NARROWER:
        own = thread if verb == "fork" else (await started(world))[1]
        api = seat.api if verb == "fork" else world.server.admin
        await change(api, own, verb, settings)


@requirement("AU2")
async def test_a_child_gets_no_more_than_its_parent_has_from_a_person_either(world: ThreadWorld) -> None:
    seat, thread = await started(world)
    child = await spawn(seat, thread, "one")
    for api in (seat.api, world.person):
        for settings in WIDER:
            await expect_no_change(api, child, "resume", settings)
    await change(seat.api, child, "resume", {"tools": ["read"]})
    await change(seat.api, child, "resume", {"tools": ["read", "search"]})


@requirement("AU2")
async def test_a_person_may_give_a_root_thread_more(world: ThreadWorld) -> None:
    _, thread = await started(world)
    for settings in WIDER[:6]:
        await change(world.person, thread, "fork", settings)
        resumed = await change(world.person, thread, "resume", settings)
        assert {name: resumed[name] for name in settings} == settings
