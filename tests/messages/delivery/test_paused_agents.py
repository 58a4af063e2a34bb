"""What waits although nothing failed: seats that are paused or hibernated, and what their senders see."""

from typing import Any

import pytest
from msgspec.structs import replace

from molecule_core.common.clock import SECOND
from molecule_core.messages import rules
from molecule_core.org.model import WorkspaceStatus
from testing.push_agents import said
from testing.running_server import Seat
from testing.waits import eventually, refused
from testing.workspaces import beat, status_of
from tests.messages.delivery.push_server import URL, PushServer
from tests.requirements import requirement


def stand(post: PushServer, seat: Seat, status: WorkspaceStatus) -> None:
    """A seat stands so, as if an operator had said it."""
    server = post.server.server
    workspace = server.registry.active_workspace(seat.id)
    server.registry.put_workspace(replace(workspace, status=status))
    server.wakeups.notify(("pushes", f"log:{seat.id}"))


def names(ticks: Any) -> list[str]:
    return [tick["tick"] for tick in ticks["ticks"]]


@requirement("M22", "M25", "C27")
async def test_a_paused_seat_keeps_its_mail_whoever_asks_and_gets_it_when_it_goes_on(post: PushServer) -> None:
    post.net.answers(URL, said("done"))
    poller = await post.server.seat("Poller")
    old = (await post.say("old", to=poller))["activity_id"]
    for seat in (post.ops, poller):
        stand(post, seat, WorkspaceStatus.PAUSED)
    pushed, polled = await post.ask("hi"), (await post.say("hi", to=poller))["activity_id"]
    await post.quiet()

    assert post.net.pushed == []
    assert await poller.api.claim(poller.id, wait=0) == []
    assert await poller.api.get(f"/workspaces/{poller.id}/activity", type="a2a_receive", since_id=old) == []
    assert (await post.ticks(pushed))["stuck"] == {"reason": "paused"}
    assert (await post.ticks(polled, seat=poller))["stuck"] == {"reason": "paused"}

    for seat in (post.ops, poller):
        stand(post, seat, WorkspaceStatus.ONLINE)
    await post.stands(pushed, "completed")
    assert [row["id"] for row in await poller.api.claim(poller.id, wait=0)] == [polled]


@requirement("M22", "M25", "W1")
@pytest.mark.parametrize(
    "wish",
    [{}, {"since_secs": 30}, {"source": "canvas"}, {"since_id": "old", "source": "canvas"}],
    ids=["first page", "young", "canvas", "filtered cursor"],
)
async def test_no_page_hands_mail_to_a_paused_seat(post: PushServer, wish: dict[str, Any]) -> None:
    """Neither the first one of a client that will keep a cursor, nor a filtered one. What only tells of it tells it all
    the same, which is no hand-over, and nobody else is kept from reading."""
    poller = await post.server.seat("Poller")
    old = (await post.say("old", to=poller))["activity_id"]
    await poller.api.ack(poller.id, (await poller.api.claim(poller.id, wait=0))[0])
    stand(post, poller, WorkspaceStatus.PAUSED)
    new = (await post.say("hi", to=poller))["activity_id"]
    path, page = f"/workspaces/{poller.id}/activity", {"type": "a2a_receive", **wish}
    if "since_id" in wish:
        page["since_id"] = old

    assert await poller.api.get(path, **page) == []
    assert new in [row["id"] for row in await post.person.get(path, **page)]
    back = {"before_ts": "2100-01-01T00:00:00Z", **wish_of(wish)}
    for tells in (back, {}, {"waiting": "true"}):
        assert new in [row["id"] for row in await poller.api.get(path, **tells)]
    assert names(await post.ticks(new, seat=poller)) == ["stored"]
    owed = (await post.person.get(f"/workspaces/{poller.id}/obligations", state="all"))["obligations"]
    assert [each["activity_id"] for each in owed] == [old]

    stand(post, poller, WorkspaceStatus.ONLINE)
    assert [row["id"] for row in await poller.api.get(path, **page)][:1] == [new]


def wish_of(wish: dict[str, Any]) -> dict[str, Any]:
    """The same without a cursor."""
    return {name: value for name, value in wish.items() if name != "since_id"} | {"type": "a2a_receive"}


@requirement("M22", "M25")
async def test_mail_for_a_hibernated_seat_asks_for_somebody_to_wake_it(post: PushServer) -> None:
    post.net.answers(URL, said("done"))
    poller = await post.server.seat("Poller")
    for seat in (post.ops, poller):
        stand(post, seat, WorkspaceStatus.HIBERNATED)
    polled = (await post.say("hi", to=poller))["activity_id"]
    pushed = await post.ask("hi")
    await post.stands(pushed, "completed")

    assert names(await post.ticks(polled, seat=poller)) == ["stored", "wake_asked"]
    assert names(await post.ticks(pushed)) == ["stored", "wake_asked", "handed_over", "acked", "answered"]


@requirement("M22", "M25", "M37")
async def test_a_broadcast_asks_for_somebody_to_wake_who_hibernates(post: PushServer) -> None:
    lead, poller = await post.server.seat("Lead"), await post.server.seat("Poller")
    await post.server.let_broadcast(lead.id)
    stand(post, poller, WorkspaceStatus.HIBERNATED)

    await lead.api.post(f"/workspaces/{lead.id}/broadcast", {"message": "All hands"})

    (copy,) = await post.person.get(f"/workspaces/{poller.id}/activity", type="a2a_receive")
    assert names(await post.ticks(copy["id"], seat=poller)) == ["stored", "wake_asked"]


@requirement("M25")
async def test_ticks_tell_a_sender_what_became_of_mail_to_an_agent_that_polls(post: PushServer) -> None:
    poller = await post.server.seat("Poller")
    ids = [(await post.say(str(number), to=poller))["activity_id"] for number in range(4)]
    assert (await post.ticks(ids[0], seat=poller))["stuck"] == {"reason": "polls only"}

    rows = await poller.api.claim(poller.id, lease=10, wait=0, limit=3)
    assert (await post.ticks(ids[0], seat=poller))["stuck"] is None
    await post.clock.advance(11)
    again = await poller.api.claim(poller.id, lease=10, wait=0, limit=2)
    await poller.api.ack(poller.id, again[1])
    await poller.api.post(f"/workspaces/{poller.id}/activity/ack", {"acked_seq": rows[-1]["seq"]})

    ticks = [await post.ticks(each, seat=poller) for each in ids]
    assert [[(t["tick"], t.get("attempt")) for t in each["ticks"]] for each in ticks] == [
        [("stored", None), ("handed_over", 1), ("handed_over", 2), ("acked", None)],
        [("stored", None), ("handed_over", 1), ("handed_over", 2), ("acked", 2)],
        [("stored", None), ("handed_over", 1), ("acked", None)],
        [("stored", None)],
    ]
    assert [each["stuck"] for each in ticks] == [None, None, None, {"reason": "polls only"}]


@requirement("M25")
async def test_a_range_is_one_note_and_one_event(post: PushServer) -> None:
    poller = await post.server.seat("Poller")
    for number in range(50):
        await post.say(str(number), to=poller)
    rows = await poller.api.claim(poller.id, wait=0)
    await poller.api.post(f"/workspaces/{poller.id}/activity/ack", {"acked_seq": rows[-1]["seq"]})
    await poller.api.post(f"/workspaces/{poller.id}/activity/ack", {"acked_seq": rows[-1]["seq"]})
    await poller.api.claim(poller.id, wait=0)

    org = (await post.person.get(f"/workspaces/{poller.id}"))["org_id"]
    store = post.server.server.store
    facts = await store.rows("events_after", {"org_id": org, "seq": 0, "count": 1000})
    told = [fact for fact in facts if fact[1] == "MESSAGE_TICK"]
    assert len(told) == 2
    assert '"first_seq":1,"last_seq":50' in told[0][8]
    notes = await store.rows("deliveries_of", {"workspace_id": poller.id, "no": 25, "widest": 512, "most": 9})
    assert sorted(note[0] for note in notes) == ["acked", "handed_over"]


@requirement("M25")
async def test_of_many_hand_overs_the_first_and_the_newest_are_told(
    post: PushServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that is never acknowledged is handed over for ever; all else that became of it is told too."""
    monkeypatch.setattr(rules, "MAX_DELIVERIES", 2)
    poller = await post.server.seat("Poller")
    asked = (await post.say("hi", to=poller))["activity_id"]
    row: dict[str, Any] = {}
    for _ in range(5):
        (row,) = await poller.api.claim(poller.id, wait=0)
        claims = [{"activity_id": asked, "attempt": row["attempt"]}]
        await poller.api.post(f"/workspaces/{poller.id}/activity/release", {"claims": claims})
    await poller.api.ack(poller.id, row)

    ticks = (await post.ticks(asked, seat=poller))["ticks"]
    assert [(tick["tick"], tick.get("attempt")) for tick in ticks] == [
        ("stored", None),
        *(("handed_over", attempt) for attempt in (1, 4, 5)),
        ("acked", 5),
    ]


@requirement("M25")
async def test_first_and_newest_are_hand_overs_by_their_attempts_not_by_the_clock(
    post: PushServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody sets the clock back meanwhile."""
    monkeypatch.setattr(rules, "MAX_DELIVERIES", 2)
    poller = await post.server.seat("Poller")
    asked = (await post.say("hi", to=poller))["activity_id"]
    for number in range(5):
        (row,) = await poller.api.claim(poller.id, wait=0)
        if number == 2:
            post.clock.set_by = -3600 * SECOND
        claims = [{"activity_id": asked, "attempt": row["attempt"]}]
        await poller.api.post(f"/workspaces/{poller.id}/activity/release", {"claims": claims})

    ticks = (await post.ticks(asked, seat=poller))["ticks"]
    assert {tick["attempt"] for tick in ticks if tick["tick"] == "handed_over"} == {1, 4, 5}


@requirement("M25", "M2")
async def test_ticks_say_since_when_an_agent_is_silent(post: PushServer) -> None:
    poller = await post.server.seat("Poller")
    await beat(poller)
    await post.clock.advance(106)
    await eventually(status_of(post.person, poller), lambda status: status == "offline")
    activity_id = (await post.say("hi", to=poller))["activity_id"]

    assert (await post.ticks(activity_id, seat=poller))["stuck"]["reason"].startswith("offline since 2027-")


@requirement("M25", "S8")
async def test_only_sender_target_and_persons_follow_a_message_all_others_know_of_none(post: PushServer) -> None:
    sender, stranger = await post.server.seat("Sender"), await post.server.seat("Stranger")
    message = {"role": "user", "parts": [{"kind": "text", "text": "hi"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
    post.net.answers(URL, said("done"))
    await sender.api.post(f"/workspaces/{post.ops.id}/a2a", body)
    activity_id = post.net.pushed[0].activity
    outsider = await post.server.person("owner", await post.server.org("Elsewhere"))

    for end in (f"a2a/queue/{activity_id}", f"messages/{activity_id}/ticks"):
        path = f"/workspaces/{post.ops.id}/{end}"
        for api in (sender.api, post.ops.api, post.person):
            assert activity_id in str(await api.get(path))
        foreign = await refused(stranger.api.get(path))
        unknown = await refused(stranger.api.get(path.replace(activity_id, "nonsense")))
        elsewhere = await refused(post.person.get(path.replace(post.ops.id, sender.id)))
        assert foreign.status == 404
        assert foreign.problem == unknown.problem == elsewhere.problem
        assert (await refused(outsider.get(path))).status == 404


@requirement("M22")
async def test_what_waits_behind_an_agents_share_of_the_slots_goes_out_as_soon_as_one_is_free(
    post: PushServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await post.person.call("PATCH", f"/workspaces/{post.ops.id}", body={"max_concurrent_tasks": 50})
    gate = post.net.hangs(URL)
    pushing, store = post.server.server.delivery.push_dispatcher._push_claims, post.server.server.store
    write_down = pushing.record_result

    async def due() -> bool:
        targets = await store.rows("due_targets", {"count": 1})
        return any(at <= post.clock.now() for _, at in targets)

    async def settle(*what: Any, **more: Any) -> None:
        """What came of a push is written down a moment before its slot is free: here somebody looks in between."""
        await write_down(*what, **more)
        await eventually(due, lambda found: not found)

    monkeypatch.setattr(pushing, "record_result", settle)
    ids = [await post.ask(f"task {number}") for number in range(18)]
    await post.until_pushed(16)
    assert [each.activity for each in post.net.pushed] == ids[:16]
    gate.set()
    await post.until_pushed(18)
    assert [each.activity for each in post.net.pushed] == ids
