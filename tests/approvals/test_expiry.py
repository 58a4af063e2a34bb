"""What is said of an approval whose time is over, before the server has come to it."""

from typing import Any

import pytest

from molecule_core.common.clock import SECOND
from testing.approval_world import ApprovalWorld, Item, code, path, steps, text_of, verb
from testing.running_server import Seat
from testing.waits import bounded
from tests.requirements import requirement

_SECONDS = 60


def falls_behind(world: ApprovalWorld) -> None:
    """The time of an approval is over, and no timer has gone off."""
    world.clock.at += _SECONDS * SECOND


async def has_expired(world: ApprovalWorld, item: Item, ops: Seat) -> Item:
    """Time has said no, and the requester reads it once."""
    found = await world.now(item)
    assert (found["status"], found["decided"]["decision"]) == ("expired", "deny")
    assert (found["decided"]["by"]["kind"], [each["kind"] for each in found["policy"]]) == ("clock", ["deadline"])
    await world.clock.advance(_SECONDS)
    told = [each for each in await world.mail(ops) if each["kind"] == "approval_decision"]
    assert len([each for each in told if "expired without a decision" in text_of(each)]) == 1
    assert await world.now(item) == found, "the timer finds nothing to do"
    return found


@requirement("Q3", "Q5")
@pytest.mark.parametrize("decision", ["approve", "deny", "escalate", "more_info"])
@pytest.mark.parametrize("who", ["holder", "person"])
async def test_what_comes_after_the_time_of_an_approval_decides_nothing(
    world: ApprovalWorld, who: str, decision: str
) -> None:
    root, ops = await world.line("Root", "Ops")
    item = await world.asks(ops, expires_in=_SECONDS)
    falls_behind(world)
    more = {"note": "why?", "revision": item["revision"]}
    said: Any = world.person_decides(item, decision, **more)
    if who == "holder":
        said.close()
        said = world.decides(root, item, decision, **more)
    assert await code(said) == (409, "already_decided")
    assert steps(await has_expired(world, item, ops))[-1] == "expired"
    assert await world.mail(root) == [], "nobody is handed what has expired"


@requirement("Q3", "Q4")
@pytest.mark.parametrize(
    ("act", "refusal"),
    [
        ("answer", "nothing_asked"),
        ("withdraw", "approval_ended"),
        ("use", "not_approved"),
        ("reply", ""),
    ],
)
async def test_the_requester_too_learns_that_its_time_was_over(world: ApprovalWorld, act: str, refusal: str) -> None:
    root, ops = await world.line("Root", "Ops")
    item = await world.asks(ops, expires_in=_SECONDS)
    await world.decides(root, item, "more_info", note="to whom?")
    (question,) = await world.mail(ops)
    falls_behind(world)
    if act == "reply":
        body = {"handle": question["instructions"]["reply_handle"], "text": "to Ann"}
        assert await bounded(ops.api.post(f"/workspaces/{ops.id}/reply", body))
    else:
        bodies = {"answer": {"text": "to Ann"}, "use": {"action_hash": item["action_hash"]}}
        assert await code(verb(ops, item, act, **bodies.get(act, {}))) == (409, refusal)
    found = await has_expired(world, item, ops)
    assert (found["revision"], "answered" in [each["what"] for each in found["path"]]) == (1, False)


@requirement("Q3", "Q5")
async def test_who_has_no_part_in_it_is_refused_as_before(world: ApprovalWorld) -> None:
    root, ops = await world.line("Root", "Ops")
    other = await world.seat("Other", root)
    item = await world.asks(ops, expires_in=_SECONDS)
    falls_behind(world)
    decide = f"{path(item)}/decide"
    assert await code(other.api.post(decide, {"decision": "approve"})) == (404, "not_found")
    assert await code(ops.api.post(decide, {"decision": "approve"})) == (403, "own_approval")
    await has_expired(world, item, ops)
