"""A thread from its start through turns: what is kept, what the model sees, who may write."""

from testing.thread_world import BASE, Engine, ThreadWorld, code, said, turn
from tests.requirements import requirement


@requirement("TH1", "TH2", "TH3")
async def test_a_thread_runs_two_turns_a_compaction_and_another_life_with_one_and_the_same_base(
    world: ThreadWorld,
) -> None:
    ops = await world.server.seat("Ops")
    thread = await world.starts(ops, developer="Speak German.", model="small", input="Hi")
    assert thread["status"] == {"type": "pending_init", "message": None}
    engine = Engine(ops.api, thread)
    work = await ops.api.get(f"/workspaces/{ops.id}/threads/work", wait=5)
    assert [each["thread_id"] for each in work["threads"]] == [thread["thread_id"]]
    sights = [await engine.works("Hello")]
    assert [(each["role"], each["text"]) for each in sights[0]["items"]] == [
        ("developer", BASE),
        ("developer", "Speak German."),
        ("user", "Hi"),
    ]
    taken = await turn(world.person, thread, "And now?")
    await engine.claim()
    sights.append(await engine.begin(taken["turn_id"]))
    call = {"type": "tool_call", "call_id": "c", "tool": "look", "arguments": {"at": 1}}
    await engine.adds({"type": "reasoning", "text": "hm"}, call)
    # Another life of the engine goes on where this one was killed; nothing is repeated.
    again = Engine(ops.api, thread)
    await again.claim()
    sights.append(await again.begin())
    assert await code(engine.adds(said("late"))) == (409, "stale_generation")
    assert [each["type"] for each in sights[-1]["items"][4:]] == ["user_message", "reasoning", "tool_call"]
    await again.adds({"type": "tool_output", "call_id": "c", "text": "seen"}, said("Later"))
    await again.ends(final="Later")
    compacting = await world.person.post(f"/threads/{thread['thread_id']}/compact")
    await again.begin(compacting["turn_id"])
    log = await world.log(thread)
    await again.adds({"type": "compaction", "summary": "They greeted.", "upto": log[-1]["ordinal"], "kind": "manual"})
    await again.ends()
    sights.append(await world.reads(thread, "/sight"))
    assert [each["text"] for each in sights[-1]["items"]] == [BASE, "Speak German.", "They greeted."]
    first = [each["items"][0] for each in sights]
    assert {(each["item_id"], each["text"], each["version"]) for each in first} == {
        (thread["base"]["item_id"], BASE, 1)
    }
    now = await world.reads(thread)
    assert (now["status"], now["turns"], now["idle"]) == ({"type": "completed", "message": None}, 3, True)
    assert now["base_instructions"] == BASE
    assert [(each["layer"], each["version"]) for each in now["layers"]] == [("developer", 1)]
