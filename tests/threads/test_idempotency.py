"""A key that comes again: the same content is the same once; other content is refused, so that no word is lost."""

import pytest

from testing.thread_world import Engine, Item, ThreadWorld, code, turn
from tests.prompts.test_prompts import build, section, tell
from tests.requirements import requirement

REUSED = (409, "message_id_reused")


async def forked(world: ThreadWorld, thread: Item, **wish: object) -> Item:
    """A fork."""
    made: Item = await world.person.post(f"/threads/{thread['thread_id']}/fork", wish)
    return made


@requirement("TH1")
async def test_other_words_under_the_key_of_a_turn_are_refused_and_the_same_are_one_turn(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    thread = await world.starts(ops)
    first = await turn(world.person, thread, "one", key="q1")
    before = await world.log(thread)
    assert await code(turn(world.person, thread, "two", key="q1")) == REUSED
    assert await turn(world.person, thread, "one", key="q1", mode="queue") == first
    assert await world.log(thread) == before
    assert (await turn(world.person, thread, "two", key="q2"))["turn_id"] != first["turn_id"]


@requirement("TH1")
async def test_an_input_that_joined_a_turn_is_compared_with_all_of_its_texts(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    thread = await world.starts(ops, input="Hi")
    engine = Engine(ops.api, thread)
    await engine.claim()
    await engine.begin()
    both = [{"type": "text", "text": "look"}, {"type": "text", "text": "there", "peer": "Dev"}]
    path = f"/threads/{thread['thread_id']}/turns"
    first = await world.person.post(path, {"input": both, "key": "q1"})
    await turn(world.person, thread, "and here")
    before = await world.log(thread)
    assert first["joined"]
    more, renamed = {"type": "text", "text": "and here"}, {**both[1], "peer": "Ann"}
    others = (both[:1], [*both, more], [both[0], renamed], "look there")
    for other in others:
        assert await code(world.person.post(path, {"input": other, "key": "q1"})) == REUSED
    assert await world.person.post(path, {"input": both, "key": "q1"}) == first
    await engine.ends()
    assert await world.person.post(path, {"input": both, "key": "q1"}) == {**first, "status": "completed"}
    assert await code(turn(world.person, thread, "later", key="q1")) == REUSED
    assert [each["type"] for each in (await world.log(thread))[: len(before)]] == [each["type"] for each in before]


@requirement("TH1", "TH2")
@pytest.mark.parametrize("other", [{"input": "y"}, {"base_instructions": "Be quick."}])
async def test_a_thread_is_not_given_for_one_with_other_words_or_another_base(world: ThreadWorld, other: Item) -> None:
    ops = await world.server.seat("Ops")
    layers = {"developer": "Speak German.", "context": "It rains."}
    first = await world.starts(ops, key="zz", input="x", **layers)
    before = await world.log(first)
    assert await code(world.starts(ops, **{"key": "zz", "input": "x", **layers, **other})) == REUSED
    assert (await world.starts(ops, key="zz", input="x", **layers))["thread_id"] == first["thread_id"]
    assert await world.log(first) == before
    assert len((await world.person.get(f"/workspaces/{ops.id}/threads"))["threads"]) == 1


@requirement("TH1")
async def test_words_that_a_thread_was_not_started_with_are_not_lost_with_its_key(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    first = await world.starts(ops, key="zz")
    assert await code(world.starts(ops, key="zz", input="x")) == REUSED
    await turn(world.person, first, "later")
    assert await code(world.starts(ops, key="zz", input="x")) == REUSED


@requirement("TH2")
async def test_what_became_otherwise_since_does_not_tell_a_start_from_its_repetition(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    first = await world.starts(ops, key="zz", input="x", developer="Speak German.")
    await Engine(ops.api, first).works()
    await world.person.post(f"/threads/{first['thread_id']}/resume", {"base_instructions": "Be quick."})
    again = await world.starts(ops, key="zz", input="x", developer="Speak English.", model="small")
    assert again["thread_id"] == first["thread_id"]


@requirement("TH2")
async def test_a_thread_with_the_prompt_of_its_time_is_found_after_another_prompt_was_told(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    await tell(ops, build(section(1, "own", "Be kind.")))
    first = await world.starts(ops, key="person:1", base_instructions=None)
    await tell(ops, build(section(1, "own", "Be quick.")))
    assert (await world.starts(ops, key="person:1", base_instructions=None))["thread_id"] == first["thread_id"]
    assert (await world.starts(ops, key="person:1", base_instructions="Be kind."))["thread_id"] == first["thread_id"]
    assert await code(world.starts(ops, key="person:1", base_instructions="Be quick.")) == REUSED


@requirement("TH4")
async def test_a_fork_is_given_again_for_its_source_and_place_alone(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    one, two = await world.starts(ops, key="k1", input="x"), await world.starts(ops)
    assert await code(forked(world, two, key="k1")) == REUSED, "it is no fork"
    assert await code(forked(world, one, key="k1")) == REUSED, "nor of itself"
    fork = await forked(world, one, key="k2", position=2)
    for other in ({"position": 1}, {"base_instructions": "Be quick."}):
        assert await code(forked(world, one, key="k2", **{"position": 2, **other})) == REUSED
    assert await code(forked(world, two, key="k2", position=2)) == REUSED
    assert await code(world.starts(ops, key="k2")) == REUSED, "a fork is no start"
    assert (await forked(world, one, key="k2", position=2))["thread_id"] == fork["thread_id"]
    late = await forked(world, one, key="k3", base_instructions="Be quick.")
    await turn(world.person, one, "it has grown")
    assert (await forked(world, one, key="k3", base_instructions="Be quick."))["thread_id"] == late["thread_id"]
    assert await code(forked(world, one, key="k3", base_instructions="Be slow.")) == REUSED


@requirement("TH10")
async def test_a_session_finds_its_thread_whatever_base_it_has_at_the_moment(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    for key in ("session", "session:claude"):
        first = await world.starts(ops, key=key)
        again = await world.starts(ops, key=key, base_instructions="Another runtime.")
        assert again["thread_id"] == first["thread_id"]
        assert await code(world.starts(ops, key=key, input="hello")) == REUSED
