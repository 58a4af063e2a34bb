"""What came and was not shown: while a turn sums up, beside a wait, and to an agent that is stopped."""

import asyncio
from typing import Any

import pytest

from molecule_core.common.limits import Limits
from testing.running_server import Seat
from testing.thread_world import Engine, Item, ThreadWorld, code, said, turn
from testing.waits import bounded
from testing.workspaces import remove
from tests.requirements import requirement
from tests.threads.test_agents import act, spawned


async def at_work(world: ThreadWorld, seat: Seat) -> tuple[Item, Engine]:
    """A thread in which a turn runs."""
    thread = await world.starts(seat, input="Go")
    engine = Engine(seat.api, thread)
    await engine.claim()
    await engine.begin()
    return thread, engine


async def letters(world: ThreadWorld, thread: Item) -> list[tuple[str, str, str]]:
    """The letters to a thread: who wrote each, its words, and how it stands."""
    wish = {"root_id": thread["root_id"], "workspace_id": None, "count": 99, "text_most": 99}
    rows = await world.server.server.store.rows("thread_mail_of_tree", wish)
    own = sorted((row for row in rows if row[1] == thread["thread_id"]), key=lambda row: int(row[4]))
    return [(row[3], row[7], row[9]) for row in own]


async def queued(world: ThreadWorld, thread: Item) -> int:
    """How many turns of a thread wait."""
    return len((await world.reads(thread))["queued"])


def asked(sight: Item) -> list[str]:
    """What people and agents say in a sight, bare."""
    shown = [each for each in sight["items"] if each["role"] in ("user", "peer")]
    return [each["text"].split(">")[1].split("<")[0] if each["role"] == "peer" else each["text"] for each in shown]


# -- a turn that sums up -----------------------------------------------------------------------------------------------


async def sums_up(world: ThreadWorld, engine: Engine, thread: Item, meanwhile: Any = None) -> None:
    """A turn in which an engine sums up, with what happens while its model does so."""
    await engine.begin((await world.reads(thread))["queued"][0])
    last = (await world.reads(thread))["last_ordinal"]
    if meanwhile is not None:
        await meanwhile
    await engine.adds({"type": "compaction", "summary": "They greeted.", "upto": last, "kind": "manual"})
    await engine.ends(seen=(await world.reads(thread))["last_ordinal"])


@requirement("TH3", "TH5")
async def test_what_is_said_while_a_turn_sums_up_gets_a_turn_of_its_own(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    thread, engine = await at_work(world, ops)
    await engine.ends(final="hello")
    await world.person.post(f"/threads/{thread['thread_id']}/compact")

    async def speaks() -> None:
        assert not (await turn(world.person, thread, "What about X?"))["joined"]
        runs = (await world.reads(thread))["turn_id"]
        for more in ({}, {"expected_turn_id": runs}):
            assert await code(turn(world.person, thread, "Now", mode="steer", **more)) == (409, "no_turn")

    await sums_up(world, engine, thread, speaks())
    assert await queued(world, thread) == 1
    assert asked(await Engine(ops.api, thread).works())[-1:] == ["What about X?"]


@requirement("TH3", "TH5")
async def test_words_that_a_turn_was_not_shown_get_one_though_a_turn_that_sums_up_waits(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    thread, engine = await at_work(world, ops)
    seen = (await engine.adds(said("hello")))["last_ordinal"]
    await world.person.post(f"/threads/{thread['thread_id']}/compact")
    assert (await turn(world.person, thread, "What about X?"))["joined"]
    await engine.ends(final="hello", seen=seen)
    assert await queued(world, thread) == 2
    await sums_up(world, engine, thread)
    assert await queued(world, thread) == 1


@requirement("TH7")
async def test_letters_wait_for_the_turn_behind_the_one_that_sums_up(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    thread, engine = await at_work(world, ops)
    child = await spawned(world, ops.api, thread, "one")
    await Engine(ops.api, child).works("first")
    await world.person.post(f"/threads/{child['thread_id']}/compact")
    await act(ops.api, thread, "followup", "f", target="one", message="Look at X.")
    await engine.ends(final="waiting")
    # The first end came while the root was at work: it is read in a turn of its own, and X is open still.
    assert asked(await Engine(ops.api, thread).works("thanks"))[-1] == "first"

    worker = Engine(ops.api, child)
    await worker.claim()
    await sums_up(world, worker, child)
    assert (await letters(world, child))[-1] == ("root", "Look at X.", "accepted")
    assert await queued(world, child) == 1
    assert await queued(world, thread) == 0
    assert asked(await Engine(ops.api, child).works("X is fine"))[-1] == "Look at X."
    assert (await letters(world, child))[-1] == ("root", "Look at X.", "answered")
    assert (await letters(world, thread))[-1] == ("root/one", "X is fine", "accepted")


# -- beside a wait -----------------------------------------------------------------------------------------------------


@requirement("TH7", "TH8")
async def test_a_result_that_a_wait_does_not_tell_is_read_later(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    thread, engine = await at_work(world, ops)
    one, two = [await spawned(world, ops.api, thread, name) for name in ("one", "two")]
    for child in (one, two):
        await Engine(ops.api, child).works(f"first of {child['task_name']}")
    await world.person.post(f"/threads/{one['thread_id']}/close")
    await act(ops.api, thread, "followup", "again", target="two", message="And now?")
    await Engine(ops.api, two).works("second of two")

    call = await act(ops.api, thread, "wait", "w", targets=["one", "two"], mode="all")

    assert [(each["status"], each.get("message")) for each in call["agents"]] == [
        ("shutdown", None),
        ("completed", "second of two"),
    ]
    await engine.ends(final="later")
    assert asked(await Engine(ops.api, thread).works("I see"))[1:] == ["first of one", "first of two"]


@requirement("TH7", "TH8")
async def test_the_closing_that_a_wait_has_told_is_told_by_no_letter(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    thread, engine = await at_work(world, ops)
    child = await spawned(world, ops.api, thread, "one")
    await world.person.post(f"/threads/{child['thread_id']}/close")
    call = await act(ops.api, thread, "wait", "w", targets=["one"])
    assert call["agents"][0]["status"] == "shutdown"
    await engine.ends(final="later")
    assert (await world.reads(thread))["idle"]


@requirement("TH7", "TH8")
@pytest.mark.parametrize("third", [False, True])
async def test_the_digests_that_an_end_would_have_brought_wake_though_a_wait_has_told_that_end(
    world: ThreadWorld, third: bool
) -> None:
    ops = await world.server.seat("Ops")
    thread, engine = await at_work(world, ops)
    names = ("one", "two", "three")
    wakes = dict(zip(names, ("digest", "wake" if third else "digest", "digest"), strict=True))
    children = {
        name: await spawned(world, ops.api, thread, name, wake=wakes[name]) for name in names[: 3 if third else 2]
    }
    for name in ("one", "two"):
        await Engine(ops.api, children[name]).works(name)
    call = await act(ops.api, thread, "wait", "w", targets=["two"])
    assert [each["message"] for each in call["agents"]] == ["two"]
    await engine.ends(final="later")
    assert await queued(world, thread) == int(not third), "a digest waits for the last end of all"
    if third:
        await Engine(ops.api, children["three"]).works("three")
    told = asked(await Engine(ops.api, thread).works("I see"))
    assert told[1:] == (["one", "three"] if third else ["one"])


@requirement("TH7", "TH8")
async def test_an_end_that_came_as_a_letter_is_not_told_again_by_the_next_wait(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    thread, engine = await at_work(world, ops)
    one, two = [await spawned(world, ops.api, thread, name) for name in ("one", "two")]
    await engine.ends(final="later")
    await Engine(ops.api, one).works("first of one")
    assert asked(await engine.begin((await world.reads(thread))["queued"][0]))[-1:] == ["first of one"]
    waiting = asyncio.ensure_future(act(ops.api, thread, "wait", "w", targets=["one", "two"]))
    await world.until_it_waits(thread, "w")
    await Engine(ops.api, two).works("first of two")
    told = (await bounded(waiting))["agents"]
    assert [each.get("outcome") for each in told] == [None, "ended"]
    # What it does from then on is another end.
    await act(ops.api, thread, "followup", "again", target="one", message="And now?")
    await Engine(ops.api, one).works("second of one")
    told = (await act(ops.api, thread, "wait", "w2", targets=["one", "two"]))["agents"]
    assert [(each.get("outcome"), each["message"]) for each in told] == [
        ("ended", "second of one"),
        (None, "first of two"),
    ]


@requirement("TH7", "TH8")
async def test_a_letter_of_an_earlier_end_does_not_keep_a_wait_from_telling_the_last_one(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    thread, engine = await at_work(world, ops)
    one = await spawned(world, ops.api, thread, "one")
    await engine.ends(final="later")
    await Engine(ops.api, one).works("for who asked")
    await turn(world.person, one, "And for me?")
    await Engine(ops.api, one).works("for the user")
    assert asked(await engine.begin((await world.reads(thread))["queued"][0]))[-1:] == ["for who asked"]
    told = (await act(ops.api, thread, "wait", "w", targets=["one"]))["agents"]
    assert [(each["outcome"], each["message"]) for each in told] == [("ended", "for the user")]


# -- to an agent that is stopped ---------------------------------------------------------------------------------------


async def asks_one_at_work(world: ThreadWorld, lead: Seat, ops: Seat) -> tuple[Item, Item, Item]:
    """A root, an agent at work for it, and another agent that has written to that one and is idle."""
    thread, engine = await at_work(world, lead)
    one = await spawned(world, lead.api, thread, "one", workspace_id=ops.id)
    two = await spawned(world, lead.api, thread, "two", wake="queue")
    worker = Engine(ops.api, one)
    await worker.claim()
    await worker.begin()
    second = Engine(lead.api, two)
    await second.claim()
    await second.begin()
    await act(lead.api, two, "followup", "f", target="root/one", message="Look at X.")
    await second.ends(final="asked")
    await engine.ends(final="later")
    return thread, one, two


@requirement("TH7")
@pytest.mark.parametrize("how", ["close", "removal"])
async def test_who_wrote_to_an_agent_at_work_hears_that_it_was_closed(world: ThreadWorld, how: str) -> None:
    lead = await world.server.seat("Lead")
    ops = await world.server.seat("Ops", parent_id=lead.id)
    _, one, two = await asks_one_at_work(world, lead, ops)
    if how == "close":
        await world.person.post(f"/threads/{one['thread_id']}/close")
    else:
        await remove(world.server.admin, ops)
    assert (await letters(world, one))[-1] == ("root/two", "Look at X.", "failed")
    assert (await letters(world, two))[-1] == ("root/one", "Agent was interrupted.", "accepted")
    assert await queued(world, two) == 1


@requirement("TH7")
async def test_who_asked_twice_hears_once_that_the_agent_was_closed_and_it_is_not_told_itself(
    world: ThreadWorld,
) -> None:
    ops = await world.server.seat("Ops")
    thread, _ = await at_work(world, ops)
    child = await spawned(world, ops.api, thread, "one")
    worker = Engine(ops.api, child)
    await worker.claim()
    await worker.begin()
    await act(ops.api, thread, "followup", "f", target="one", message="And Y.")
    await act(ops.api, child, "followup", "self", target=child["thread_id"], message="Mind Z.")
    await turn(world.person, child, "And this.", mode="queue")
    await world.person.post(f"/threads/{child['thread_id']}/close")
    assert [each for each in await letters(world, thread) if each[0] == "root/one"] == [
        ("root/one", "Agent was interrupted.", "accepted")
    ]
    assert [state for _, _, state in await letters(world, child)] == ["failed", "failed", "failed"]
    assert await queued(world, child) == 0


@requirement("TH7")
async def test_who_wrote_to_an_agent_that_had_not_begun_hears_that_it_was_stopped(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    thread, engine = await at_work(world, ops)
    one, two = [await spawned(world, ops.api, thread, name, wake="queue") for name in ("one", "two")]
    await act(ops.api, two, "followup", "f", target="root/one", message="Look at X.")
    await engine.ends(final="later")
    await Engine(ops.api, two).works("asked")
    await world.person.post(f"/threads/{one['thread_id']}/interrupt")
    for asker in (thread, two):
        assert (await letters(world, asker))[-1] == ("root/one", "Agent was interrupted.", "accepted")
    assert [state for _, _, state in await letters(world, one)] == ["failed", "failed"]
    assert (await world.reads(one))["idle"]


@requirement("TH7")
async def test_who_wrote_to_an_agent_whose_budget_is_used_up_hears_that_it_does_not_begin(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    thread, engine = await at_work(world, ops)
    one, two = [await spawned(world, ops.api, thread, name, wake="queue") for name in ("one", "two")]
    worker = Engine(ops.api, one)
    await worker.claim()
    await worker.begin()
    await worker.adds({"type": "usage", "record_key": "all", "input": Limits().thread_tokens, "output": 0})
    await worker.ends("failed", error="budget")
    for asker in (thread, two):
        await act(ops.api, asker, "followup", "f", target="root/one", message="Look at X.")
    await engine.ends(final="later")
    await Engine(ops.api, two).works("asked")
    await worker.claim()
    assert (await worker.begin())["stop"] == "budget"
    for asker in (thread, two):
        author, text, state = (await letters(world, asker))[-1]
        assert (author, text.startswith("Agent errored: tokens of this t"), state) == ("root/one", True, "accepted")
    assert [state for _, _, state in await letters(world, one)] == ["failed", "failed", "failed"]
