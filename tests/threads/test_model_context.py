"""What a model sees where logs meet: forks of forks, calls that were cut, summaries."""

from testing.thread_world import Engine, Item, ThreadWorld, code, said, turn
from tests.requirements import requirement
from tests.threads.test_agents import spawned


def call(name: str) -> Item:
    """A model calls a tool."""
    return {"type": "tool_call", "call_id": name, "tool": "look", "arguments": {}}


def output(name: str, text: str = "seen") -> Item:
    """What came of it."""
    return {"type": "tool_output", "call_id": name, "text": text}


async def texts(world: ThreadWorld, thread: Item) -> list[str]:
    """What the model sees of a thread, behind its base instructions."""
    return [each["text"] for each in (await world.reads(thread, "/sight"))["items"][1:]]


@requirement("TH4", "TH5")
async def test_a_fork_in_a_turn_that_two_lives_ran_ends_before_it_and_it_counts_as_one_turn(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    thread = await world.starts(ops, input="First")
    await Engine(ops.api, thread).works("Hello")
    await turn(world.person, thread, "Second")
    life = Engine(ops.api, thread)
    await life.claim()
    await life.begin()
    await life.adds(said("I begin"))
    life = Engine(ops.api, thread)
    await life.claim()
    await life.begin()
    assert (await world.types(thread)).count("turn_started") == 3
    fork = await world.person.post(f"/threads/{thread['thread_id']}/fork", {})
    assert await texts(world, fork) == ["First", "Hello"]
    child = await spawned(world, ops.api, thread, "two", fork_turns=2)
    seen = await Engine(ops.api, child).works()
    assert [each["text"] for each in seen["items"]][1:4] == ["First", "Hello", "Second"]


@requirement("TH4", "TH5")
async def test_a_child_that_is_to_see_one_turn_sees_nothing_of_what_its_parent_was_forked_from(
    world: ThreadWorld,
) -> None:
    ops = await world.server.seat("Ops")
    thread = await world.starts(ops, input="Old")
    await Engine(ops.api, thread).works("Old answer")
    fork = await world.person.post(f"/threads/{thread['thread_id']}/fork", {})
    await turn(world.person, fork, "New")
    life = Engine(ops.api, fork)
    await life.claim()
    await life.begin()
    child = await spawned(world, ops.api, fork, "one", fork_turns=1)
    seen = [each["text"] for each in (await Engine(ops.api, child).works())["items"]][1:]
    assert seen[0] == "New"
    assert "Old" not in seen


@requirement("TH5")
async def test_a_call_that_was_cut_stays_hidden_though_another_one_has_its_name(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    thread = await world.starts(ops, input="Go")
    life = Engine(ops.api, thread)
    await life.claim()
    await life.begin()
    position = (await life.adds(call("c1")))["last_ordinal"]
    await life.adds(output("c1"))
    fork = await world.person.post(f"/threads/{thread['thread_id']}/fork", {"position": position})
    await turn(world.person, fork, "Again")
    other = Engine(ops.api, fork)
    await other.claim()
    await other.begin()
    await other.adds(call("c1"), output("c1", "anew"))
    items = (await world.reads(fork, "/sight"))["items"][1:]
    assert [each["type"] for each in items] == ["user_message", "user_message", "tool_call", "tool_output"]


@requirement("TH5")
async def test_a_turn_that_ends_answers_each_call_that_is_open_also_one_of_a_name_that_was_answered(
    world: ThreadWorld,
) -> None:
    ops = await world.server.seat("Ops")
    thread = await world.starts(ops, input="Go")
    life = Engine(ops.api, thread)
    await life.claim()
    await life.begin()
    await life.adds(call("c1"), output("c1"), call("c1"))
    await life.ends("interrupted")
    outputs = [each["entry"] for each in await world.log(thread) if each["type"] == "tool_output"]
    assert [(each["call_id"], each["is_error"]) for each in outputs] == [("c1", False), ("c1", True)]


@requirement("TH5")
async def test_a_summary_covers_neither_its_own_turns_input_nor_what_is_yet_to_come(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    thread = await world.starts(ops, input="Go")
    life = Engine(ops.api, thread)
    await life.claim()
    last = (await life.begin())["last_ordinal"]
    summary = {"type": "compaction", "summary": "All of it.", "kind": "automatic"}
    assert await code(life.adds({**summary, "upto": last + 1})) == (422, "invalid_field")
    await life.adds({**summary, "upto": last})
    await turn(world.person, thread, "Now this")
    assert await texts(world, thread) == ["All of it.", "Go", "Now this"]
