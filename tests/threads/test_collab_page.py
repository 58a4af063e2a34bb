"""What a page reads of a tree at once, to be whole again after it missed something."""

from testing.thread_world import Engine, ThreadWorld, code
from testing.waits import bounded
from tests.requirements import requirement


@requirement("C82", "TH7", "TH9")
async def test_the_calls_and_letters_of_a_tree_are_read_at_once_with_begins_ends_and_receipts(
    world: ThreadWorld,
) -> None:
    ops = await world.server.seat("Ops")
    thread, other = await world.starts(ops, input="Go"), await world.starts(ops)
    lead = Engine(ops.api, thread)
    await lead.claim()
    await lead.begin()
    agents = f"/threads/{thread['thread_id']}/agents"
    wish = {"call_id": "s", "task_name": "dig", "message": "Dig."}
    child = (await bounded(ops.api.post(f"{agents}/spawn", wish)))["call"]["new_thread_id"]
    assert await code(ops.api.post(f"{agents}/spawn", {**wish, "call_id": "t"})) == (422, "invalid_task")
    below = {"thread_id": child}
    digger = Engine(ops.api, below)
    await digger.claim()
    await digger.begin()
    letter = {"call_id": "m", "target": "root", "message": "Found."}
    await bounded(ops.api.post(f"/threads/{child}/agents/send", letter))
    for place in (thread, below):
        page = await world.reads(place, "/collab")
        told = [(each["entry"]["tool"], each["entry"]["call_id"], each["entry"]["status"]) for each in page["calls"]]
        assert sorted(told) == [
            ("send", "m", "completed"),
            ("send", "m", "inProgress"),
            ("spawn", "s", "completed"),
            ("spawn", "s", "inProgress"),
            ("spawn", "t", "failed"),
            ("spawn", "t", "inProgress"),
        ]
        # Within one log the order is the log's.
        assert [each for each in told if each[0] == "spawn"] == [
            ("spawn", "s", "inProgress"),
            ("spawn", "s", "completed"),
            ("spawn", "t", "inProgress"),
            ("spawn", "t", "failed"),
        ]
        mail = {(each["mail_type"], each["receiver_thread_id"], each["state"]) for each in page["mail"]}
        assert mail == {("NEW_TASK", child, "delivered"), ("MESSAGE", thread["thread_id"], "accepted")}
    assert await world.reads(other, "/collab") == {"calls": [], "mail": []}
    stranger = await world.server.seat("Elsewhere")
    assert (await code(stranger.api.get(f"/threads/{child}/collab")))[0] == 404
