"""A key that comes again: the same content is the same once; other content is refused, so that no word is lost."""

import pytest

from tests.journeys.test_prompts import build, section, tell
from tests.requirements import requirement
from tests.threads.house import Engine, House, Item, code, turn

REUSED = (409, "message_id_reused")


async def forked(house: House, thread: Item, **wish: object) -> Item:
    """A fork."""
    made: Item = await house.person.post(f"/threads/{thread['thread_id']}/fork", wish)
    return made


@requirement("TH1")
async def test_other_words_under_the_key_of_a_turn_are_refused_and_the_same_are_one_turn(house: House) -> None:
    ops = await house.server.seat("Ops")
    thread = await house.starts(ops)
    first = await turn(house.person, thread, "one", key="q1")
    before = await house.log(thread)
    assert await code(turn(house.person, thread, "two", key="q1")) == REUSED
    assert await turn(house.person, thread, "one", key="q1", mode="queue") == first
    assert await house.log(thread) == before
    assert (await turn(house.person, thread, "two", key="q2"))["turn_id"] != first["turn_id"]


@requirement("TH1")
async def test_an_input_that_joined_a_turn_is_compared_with_all_of_its_texts(house: House) -> None:
    ops = await house.server.seat("Ops")
    thread = await house.starts(ops, input="Hi")
    engine = Engine(ops.api, thread)
    await engine.claim()
    await engine.begin()
    both = [{"type": "text", "text": "look"}, {"type": "text", "text": "there", "peer": "Dev"}]
    path = f"/threads/{thread['thread_id']}/turns"
    first = await house.person.post(path, {"input": both, "key": "q1"})
    await turn(house.person, thread, "and here")
    before = await house.log(thread)
    assert first["joined"]
    more, renamed = {"type": "text", "text": "and here"}, {**both[1], "peer": "Ann"}
    others = (both[:1], [*both, more], [both[0], renamed], "look there")
    for other in others:
        assert await code(house.person.post(path, {"input": other, "key": "q1"})) == REUSED
    assert await house.person.post(path, {"input": both, "key": "q1"}) == first
    await engine.ends()
    assert await house.person.post(path, {"input": both, "key": "q1"}) == first
    assert await code(turn(house.person, thread, "later", key="q1")) == REUSED
    assert [each["type"] for each in (await house.log(thread))[: len(before)]] == [each["type"] for each in before]


@requirement("TH1", "TH2")
@pytest.mark.parametrize("other", [{"input": "y"}, {"base_instructions": "Be quick."}])
async def test_a_thread_is_not_given_for_one_with_other_words_or_another_base(house: House, other: Item) -> None:
    ops = await house.server.seat("Ops")
    layers = {"developer": "Speak German.", "context": "It rains."}
    first = await house.starts(ops, key="zz", input="x", **layers)
    before = await house.log(first)
    assert await code(house.starts(ops, **{"key": "zz", "input": "x", **layers, **other})) == REUSED
    assert (await house.starts(ops, key="zz", input="x", **layers))["thread_id"] == first["thread_id"]
    assert await house.log(first) == before
    assert len((await house.person.get(f"/workspaces/{ops.id}/threads"))["threads"]) == 1


@requirement("TH1")
async def test_words_that_a_thread_was_not_started_with_are_not_lost_with_its_key(house: House) -> None:
    ops = await house.server.seat("Ops")
    first = await house.starts(ops, key="zz")
    assert await code(house.starts(ops, key="zz", input="x")) == REUSED
    await turn(house.person, first, "later")
    assert await code(house.starts(ops, key="zz", input="x")) == REUSED


@requirement("TH2")
async def test_what_became_otherwise_since_does_not_tell_a_start_from_its_repetition(house: House) -> None:
    ops = await house.server.seat("Ops")
    first = await house.starts(ops, key="zz", input="x", developer="Speak German.")
    await Engine(ops.api, first).works()
    await house.person.post(f"/threads/{first['thread_id']}/resume", {"base_instructions": "Be quick."})
    again = await house.starts(ops, key="zz", input="x", developer="Speak English.", model="small")
    assert again["thread_id"] == first["thread_id"]


@requirement("TH2")
async def test_a_thread_with_the_prompt_of_its_time_is_found_after_another_prompt_was_told(house: House) -> None:
    ops = await house.server.seat("Ops")
    await tell(ops, build(section(1, "own", "Be kind.")))
    first = await house.starts(ops, key="person:1", base_instructions=None)
    await tell(ops, build(section(1, "own", "Be quick.")))
    assert (await house.starts(ops, key="person:1", base_instructions=None))["thread_id"] == first["thread_id"]
    assert (await house.starts(ops, key="person:1", base_instructions="Be kind."))["thread_id"] == first["thread_id"]
    assert await code(house.starts(ops, key="person:1", base_instructions="Be quick.")) == REUSED


@requirement("TH4")
async def test_a_fork_is_given_again_for_its_source_and_place_alone(house: House) -> None:
    ops = await house.server.seat("Ops")
    one, two = await house.starts(ops, key="k1", input="x"), await house.starts(ops)
    assert await code(forked(house, two, key="k1")) == REUSED, "it is no fork"
    assert await code(forked(house, one, key="k1")) == REUSED, "nor of itself"
    fork = await forked(house, one, key="k2", position=2)
    for other in ({"position": 1}, {"base_instructions": "Be quick."}):
        assert await code(forked(house, one, key="k2", **{"position": 2, **other})) == REUSED
    assert await code(forked(house, two, key="k2", position=2)) == REUSED
    assert await code(house.starts(ops, key="k2")) == REUSED, "a fork is no start"
    assert (await forked(house, one, key="k2", position=2))["thread_id"] == fork["thread_id"]
    late = await forked(house, one, key="k3", base_instructions="Be quick.")
    await turn(house.person, one, "it has grown")
    assert (await forked(house, one, key="k3", base_instructions="Be quick."))["thread_id"] == late["thread_id"]
    assert await code(forked(house, one, key="k3", base_instructions="Be slow.")) == REUSED


@requirement("TH10")
async def test_a_session_finds_its_thread_whatever_base_it_has_at_the_moment(house: House) -> None:
    ops = await house.server.seat("Ops")
    for key in ("session", "session:claude"):
        first = await house.starts(ops, key=key)
        again = await house.starts(ops, key=key, base_instructions="Another runtime.")
        assert again["thread_id"] == first["thread_id"]
        assert await code(house.starts(ops, key=key, input="hello")) == REUSED
