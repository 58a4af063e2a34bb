"""One seat and what happens to it: refusals, outages, crashes at every request, other processes. Time stands still."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from molecule_core.agent.client.tokens import TokenRegistry
from molecule_core.agent.config import AgentSettings, WorkspaceConfig
from molecule_core.agent.mailbox.cursors import CursorFile, CursorState
from molecule_core.agent.mailbox.inbox import MergedInbox
from molecule_core.agent.mailbox.leader import LeaderLock
from molecule_core.agent.mailbox.membership import Membership, MembershipContext
from molecule_core.client.api import ApiError, ConnectionBroken, NoAnswerError
from molecule_core.wire.schemas.agent_cards import ALL_TOOL_NAMES
from testing.clocks import FakeClock, SeededRandomness, settle
from testing.waits import bounded
from tests.agent.inbox_server import StandIn, StandIns
from tests.requirements import requirement

UNAUTHORIZED = ApiError(401, {"error": "invalid workspace auth token", "code": "invalid_token"})
REMOVED = ApiError(410, {"error": "workspace removed", "code": "workspace_removed"})


class Life:
    """A process's seats on stand-in servers, and its inbox."""

    def __init__(self, folder: Path, clock: FakeClock, servers: dict[str, StandIn], **more: Any) -> None:
        ids = more.pop("ids", list(servers))
        files, lost = more.pop("files", {}), more.pop("lost", None)
        self.refusals: list[str] = []
        self.inbox = MergedInbox()
        self.tokens = TokenRegistry()
        for id_ in ids:
            self.tokens.register(id_, f"token-of-{id_}")
        shared = MembershipContext(
            clock=clock,
            randomness=SeededRandomness(),
            settings=AgentSettings(**{"lease_seconds": 120, "heartbeat_seconds": 20, **more}),
            tokens=self.tokens,
            servers=StandIns(self.tokens, servers),
            inbox=self.inbox,
            card=lambda: {"tools": 3},
            on_refused=self.refusals.append if len(ids) == 1 else None,
            on_lost=lost,
        )
        self.seats = {
            id_: Membership(
                WorkspaceConfig(id=id_, url="http://server", token=f"token-of-{id_}", token_file=files.get(id_)),
                CursorFile(folder, id_, single=False),
                LeaderLock(folder, id_),
                shared,
            )
            for id_ in ids
        }
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        """Takes all seats."""
        self._tasks = [asyncio.create_task(each.run()) for each in self.seats.values()]
        await settle()

    async def die(self) -> None:
        """The process is gone: what was under way is never finished, and the lock is free."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def ids(self) -> list[str]:
        """What waits in the inbox."""
        return [entry.message.activity_id for entry in self.inbox.entries()]

    async def handle(self, activity_id: str) -> bool:
        """A message is handled."""
        (entry,) = self.inbox.find_entries(activity_id)
        seat = self.seats[entry.message.arrival_workspace_id]
        return await bounded(seat.ack_message(activity_id, entry.message.attempt))


@asynccontextmanager
async def alive(folder: Path, clock: FakeClock, *servers: StandIn, **more: Any) -> AsyncIterator[Life]:
    """A process with seats, until the block ends."""
    life = Life(folder, clock, {each.workspace_id: each for each in servers}, **more)
    await life.begin()
    try:
        yield life
    finally:
        await life.die()


@pytest.fixture
def server(clock: FakeClock) -> StandIn:
    """The server of the workspace w."""
    return StandIn(clock, "w")


@requirement("G7", "G9")
async def test_a_seat_registers_beats_and_brings_mail_under_its_own_name(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    server.put("m-1")
    async with alive(tmp_path, clock, server) as life:
        (entry,) = life.inbox.entries()
        assert entry.message.arrival_workspace_id == "w"  # whatever the server says
        assert (entry.message.text, life.seats["w"].state) == ("m-1", "leading")
        card = {"tools": 3, "loaded_mcp_tools": ALL_TOOL_NAMES}
        assert server.bodies[0] == {"id": "w", "agent_card": card, "delivery_mode": "poll"}
        assert server.bodies[1]["loaded_mcp_tools"] == ALL_TOOL_NAMES
        for _ in range(6):
            await clock.advance(20)
        assert 4 <= server.count("/registry/heartbeat") <= 9
        assert set(server.tokens) == {"token-of-w"}


@requirement("G7")
async def test_a_server_that_is_away_or_refuses_stops_no_other_seat(clock: FakeClock, tmp_path: Path) -> None:
    good, bad = StandIn(clock, "good"), StandIn(clock, "bad")
    bad.refuses["/registry/register"] = UNAUTHORIZED
    async with alive(tmp_path, clock, good, bad, ids=["away", "bad", "good"]) as life:
        good.put("m-1")
        await settle()
        assert life.ids == ["m-1"]
        assert {id_: seat.state for id_, seat in life.seats.items()} == {
            "good": "leading",
            "bad": "refused",
            "away": "away",
        }
        assert life.refusals == []

        bad.refuses.clear()
        bad.put("m-2")
        await clock.advance(2)
        assert life.ids == ["m-1", "m-2"]
        assert life.seats["bad"].problem == ""


@requirement("G7")
async def test_after_trouble_it_asks_again_later_and_later_and_at_once_again_after_success(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    server.refuses["/registry/register"] = NoAnswerError("away")
    async with alive(tmp_path, clock, server, retry_seconds=1, retry_most_seconds=60) as life:
        begun = clock.monotonic()
        times = []
        while server.count("/registry/register") < 10:
            before = server.count("/registry/register")
            await clock.advance(0.25)
            times += [clock.monotonic() - begun] * (server.count("/registry/register") - before)
        waits = [after - before for before, after in zip([0.0, *times], times, strict=False)]
        assert all(0.5 * 2**n <= wait <= 2**n + 0.25 for n, wait in enumerate(waits[:6]))
        assert max(waits) <= 60.25
        server.refuses.clear()
        await clock.advance(60)
        assert life.seats["w"].state == "leading"


@requirement("G7")
async def test_a_broken_connection_is_called_one_and_the_next_contact_is_logged(
    server: StandIn, clock: FakeClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.refuses["/registry/register"] = ConnectionBroken("Server disconnected without sending a response.")
    async with alive(tmp_path, clock, server, retry_seconds=1, retry_most_seconds=1) as life:
        await clock.advance(1)
        said = life.seats["w"].problem
        server.refuses.clear()
        await clock.advance(2)
        assert life.seats["w"].state == "leading"
    assert said.endswith("broke or cannot be opened (Server disconnected without sending a response); retrying"), said
    assert "unexpected response" not in caplog.text
    assert [each for each in caplog.messages if "connected to" in each and each.endswith("again")] != []


@requirement("G6")
async def test_a_refusal_of_the_only_seat_is_reported_once_it_was_never_taken(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    server.refuses["/registry/register"] = ApiError(403, {"error": "forbidden"})
    async with alive(tmp_path, clock, server) as life:
        assert len(life.refusals) == 1 and "the server rejected the token" in life.refusals[0]


@requirement("G7")
async def test_a_token_that_is_taken_away_later_is_waited_for_and_read_anew_from_its_file(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    async with alive(tmp_path, clock, server, files={"w": file}) as life:
        server.refuses["/w/activity"] = server.refuses["/registry"] = UNAUTHORIZED
        await clock.advance(30)
        assert (life.seats["w"].state, life.refusals) == ("refused", [])

        file.write_text("a-new-token")
        await clock.advance(60)
        server.refuses.clear()
        await clock.advance(60)
        assert life.seats["w"].state == "leading"
        assert server.tokens[-1] == life.tokens.token("w") == "a-new-token"


@requirement("G7")
async def test_refused_heartbeats_are_told_at_first_at_the_third_and_then_rarely(
    server: StandIn, clock: FakeClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.refuses["/registry/heartbeat"] = UNAUTHORIZED
    caplog.set_level(logging.WARNING, "molecule.agent")
    async with alive(tmp_path, clock, server):
        while server.count("/registry/heartbeat") < 41:
            await clock.advance(5)
    told = [(record.levelname, record.getMessage()) for record in caplog.records if "heartbeat" in record.getMessage()]
    assert [level for level, _ in told] == ["WARNING", "ERROR", "ERROR", "ERROR"]
    assert ["3 heart" in told[1][1], "20 heart" in told[2][1], "40 heart" in told[3][1]] == [True] * 3


@requirement("G7")
@pytest.mark.parametrize("path", ["/registry/register", "/registry/heartbeat", "/w/activity"])
async def test_a_removed_workspace_is_left_for_good_and_others_go_on(
    path: str, clock: FakeClock, tmp_path: Path
) -> None:
    gone, other = StandIn(clock, "w"), StandIn(clock, "other")
    gone.refuses[path] = REMOVED
    async with alive(tmp_path, clock, gone, other) as life:
        await clock.advance(30)
        asked = len(gone.asked)
        await clock.advance(300)
        assert (life.seats["w"].state, len(gone.asked)) == ("removed", asked)
        other.put("m-1")
        await settle()
        assert life.ids == ["m-1"]


@requirement("G7", "G13")
@pytest.mark.parametrize(
    "answer", [None, 5, "text", {"rows": []}, [None, 7, {}], [{"id": 5, "seq": "x", "attempt": []}], [{"id": "é\n"}]]
)
async def test_no_answer_of_a_server_makes_a_seat_deaf(
    answer: Any, server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    server.strange = [answer]
    server.put("m-1")
    async with alive(tmp_path, clock, server) as life:
        await clock.advance(5)
        assert server.strange == []
        assert "m-1" in life.ids


@requirement("G7")
@pytest.mark.parametrize("answer", ["<p>hello</p>", {"rows": []}, None])
async def test_what_is_no_list_of_messages_is_no_empty_inbox_and_is_not_asked_for_at_once_again(
    answer: Any, server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    server.strange = [answer] * 9
    async with alive(tmp_path, clock, server) as life:
        seat = life.seats["w"]
        assert (server.count("/w/activity"), seat.state) == (1, "away")
        assert "not a Molecule server" in seat.problem
        await clock.advance(1.5)
        assert server.count("/w/activity") == 2


@requirement("G7")
async def test_a_web_server_that_says_hello_to_whoever_registers_gives_nobody_a_seat(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    server.hello = "<p>hello</p>"
    async with alive(tmp_path, clock, server) as life:
        assert (life.seats["w"].state, server.count("/w/activity")) == ("away", 0)


@requirement("G10")
async def test_past_its_bound_the_reader_stops_and_nothing_is_dropped(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    for number in range(10):
        server.put(f"m-{number}")
    async with alive(tmp_path, clock, server, inbox_messages=4) as life:
        await clock.advance(60)
        assert life.ids == ["m-0", "m-1", "m-2", "m-3"]
        asked = server.count("/w/activity")
        await clock.advance(50)
        assert server.count("/w/activity") == asked

        seen = []
        while life.ids:
            seen.append(life.ids[0])
            assert len(life.ids) <= 4
            await life.handle(life.ids[0])
            await settle()
        assert seen == [f"m-{number}" for number in range(10)]
        assert server.open_ids == []


@requirement("G10")
async def test_a_full_inbox_of_one_workspace_stalls_no_other_one(clock: FakeClock, tmp_path: Path) -> None:
    flooded, calm = StandIn(clock, "flooded"), StandIn(clock, "calm")
    for number in range(50):
        flooded.put(f"f-{number}")
    async with alive(tmp_path, clock, flooded, calm, inbox_messages=3) as life:
        calm.put("c-1")
        await settle()
        assert life.ids == ["f-0", "f-1", "f-2", "c-1"]


@requirement("G10")
async def test_a_lease_that_ends_while_a_message_waits_is_renewed_and_shown_to_nobody(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    server.put("m-1")
    async with alive(tmp_path, clock, server, lease_seconds=60) as life:
        for _ in range(30):
            await clock.advance(10)
        (entry,) = life.inbox.entries()
        assert entry.message.attempt >= 4
        assert await life.handle("m-1")
        assert server.open_ids == []


@requirement("G10")
async def test_an_ack_of_an_attempt_that_has_passed_is_made_good_for_the_present_one(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    server.put("m-1")
    async with alive(tmp_path, clock, server) as life:
        server.rows[0].attempt += 1  # handed out once more, and the answer is still on its way
        await life.handle("m-1")
        assert (life.ids, server.open_ids) == ([], ["m-1"])
        server.rows[0].lease_until = 0
        await clock.advance(30)
        assert (life.ids, server.open_ids) == ([], [])


@requirement("G10")
async def test_what_is_handled_while_the_server_is_away_is_told_when_it_is_back_also_after_a_restart(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    for number in range(3):
        server.put(f"m-{number}")
    async with alive(tmp_path, clock, server) as life:
        server.refuses["/activity/ack"] = NoAnswerError("away")
        assert [await life.handle("m-0"), await life.handle("m-2")] == [False, False]
        assert life.ids == ["m-1"]
        server.refuses["/registry"] = NoAnswerError("away")

    server.refuses.clear()
    async with alive(tmp_path, clock, server) as life:
        assert server.open_ids == ["m-1"]
        assert life.ids == ["m-1"]


@requirement("G10")
async def test_a_cursor_that_the_server_does_not_know_resets_this_workspace_alone(
    clock: FakeClock, tmp_path: Path
) -> None:
    first, second = StandIn(clock, "w-1"), StandIn(clock, "w-2")
    for server in (first, second):
        for number in range(2):
            server.put(f"{server.workspace_id}-{number}")
    async with alive(tmp_path, clock, first, second) as life:
        for id_ in list(life.ids):
            await life.handle(id_)
    files = {id_: CursorFile(tmp_path, id_, single=False) for id_ in ("w-1", "w-2")}
    assert [file.load().cursor for file in files.values()] == ["w-1-1", "w-2-1"]
    first.rows.clear()  # put back from before there was anything
    first.put("w-1-0")

    async with alive(tmp_path, clock, first, second) as life:
        assert life.ids == ["w-1-0"]
        assert files["w-2"].load().cursor == "w-2-1"
        assert [row.attempt for row in second.rows] == [1, 1]


async def leases_end(server: StandIn, clock: FakeClock) -> asyncio.Event:
    """What was claimed at the beginning is free again, while the next question for mail is on its way: it and what is
    asked behind it comes to the server when the event is set. (A question waits half a second, a lease lasts 120.)"""
    await clock.advance(119.2)
    server.slow = on_its_way = asyncio.Event()
    await clock.advance(0.6)
    await clock.advance(1)
    return on_its_way


@requirement("G10")
async def test_what_was_handled_late_is_not_shown_again_though_the_process_dies_while_it_says_so(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    ids = ["m-0", "m-1"]
    for id_ in ids:
        server.put(id_)
    async with alive(tmp_path, clock, server, hold_seconds=0.5, disable_heartbeat=True) as life:
        on_its_way = await leases_end(server, clock)
        handling = [asyncio.create_task(life.handle(id_)) for id_ in ids]
        await settle()
        server.dies = (len(server.asked) + 1, False)  # both come once more, and the first is being acknowledged
        on_its_way.set()
        await bounded(server.died.wait())
        await life.die()
        for task in handling:
            task.cancel()
        await asyncio.gather(*handling, return_exceptions=True)
    assert [row.attempt for row in server.rows] == [2, 2]

    server.dies = None
    async with alive(tmp_path, clock, server) as life:
        await clock.advance(130)
        assert (life.ids, server.open_ids) == ([], [])


@requirement("G10")
async def test_what_is_handled_while_another_one_is_acknowledged_is_not_shown_again(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    ids = ["m-0", "m-1"]
    for id_ in ids:
        server.put(id_)
    async with alive(tmp_path, clock, server, hold_seconds=0.5, disable_heartbeat=True) as life:
        on_its_way = await leases_end(server, clock)
        handling = [asyncio.create_task(life.handle(ids[0]))]
        await settle()
        server.slow = acknowledging = asyncio.Event()
        on_its_way.set()  # both come once more, and the first is being acknowledged
        await settle()
        assert [row.attempt for row in server.rows] == [2, 2]
        handling.append(asyncio.create_task(life.handle(ids[1])))
        await settle()
        acknowledging.set()
        await bounded(asyncio.gather(*handling))
        await settle()
        assert (life.ids, server.open_ids) == ([], [])


@requirement("G10")
async def test_an_agent_begins_its_inbox_anew_when_the_store_is_put_back_while_it_lives(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    for number in range(3):
        server.put(f"m-{number}")
    async with alive(tmp_path, clock, server, inbox_messages=3) as life:
        await life.handle("m-0")
        server.refuses["/activity"] = NoAnswerError("away")
        await clock.advance(60)
        assert (life.seats["w"].state, life.ids) == ("away", ["m-1", "m-2"])
        server.rows.clear()  # put back from before there was anything; what is new has other ids
        for number in range(8):
            server.put(f"n-{number}")
        server.refuses.clear()
        await clock.advance(60)
        # (Three, as there is room for: leases of what is gone make none.)
        assert (life.seats["w"].state, life.ids) == ("leading", ["n-0", "n-1", "n-2"])
        assert CursorFile(tmp_path, "w", single=False).load().cursor == ""


@requirement("G8", "G10")
async def test_workspaces_whose_ids_share_their_first_8_characters_have_nothing_in_common(
    clock: FakeClock, tmp_path: Path
) -> None:
    servers = [StandIn(clock, f"019c1f0e-7a00-7000-8000-00000000000{number}") for number in range(3)]
    for number, server in enumerate(servers):
        server.put("same-id")
        server.put(f"of-{number}")
    async with alive(tmp_path, clock, *servers) as life:
        middle = life.seats[servers[1].workspace_id]
        await middle.ack_message("same-id", 1)
        await middle.ack_message("of-1", 1)
        assert life.ids == ["same-id", "of-0", "same-id", "of-2"]
    async with alive(tmp_path, clock, *servers) as life:
        await settle(200)
        assert life.ids == ["same-id", "of-0", "same-id", "of-2"]

    assert [server.open_ids for server in servers] == [["same-id", "of-0"], [], ["same-id", "of-2"]]
    assert [set(server.tokens) for server in servers] == [{f"token-of-{server.workspace_id}"} for server in servers]


@requirement("G14")
async def test_a_second_process_follows_and_takes_over_at_once_what_the_first_held(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    for number in range(4):
        server.put(f"m-{number}")
    first = Life(tmp_path, clock, {"w": server})
    await first.begin()
    async with alive(tmp_path, clock, server) as second:
        await first.handle("m-1")
        await clock.advance(30)
        assert (second.seats["w"].state, second.ids) == ("following", [])
        assert server.count("/registry/register") == 1
        await first.die()
        await clock.advance(3)

        assert (second.seats["w"].state, second.ids) == ("leading", ["m-0", "m-2", "m-3"])
        assert [row.attempt for row in server.rows] == [2, 1, 2, 2]


@requirement("G14")
async def test_what_a_following_process_handles_leaves_the_leaders_inbox(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    server.put("m-0")
    server.put("m-1")
    async with alive(tmp_path, clock, server) as leader, alive(tmp_path, clock, server) as other:
        await other.seats["w"].ack_for_leader("m-0", 0)
        assert server.open_ids == ["m-1"]
        leader.seats["w"].apply_notes()
        assert leader.ids == ["m-1"]


@requirement("G14")
async def test_a_leader_whose_lock_is_taken_from_under_it_lets_go_of_everything(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    server.put("m-0")
    async with alive(tmp_path, clock, server) as old:
        (lock,) = tmp_path.glob(".mcp_leader_*")
        lock.unlink()
        async with alive(tmp_path, clock, server) as new:
            assert new.ids == ["m-0"]
            await clock.advance(30)
            assert (old.seats["w"].state, old.ids) == ("following", [])
            assert new.seats["w"].state == "leading"


@requirement("G10")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_killed_at_any_request_nothing_is_lost_and_each_message_comes_once_more_at_most(
    after: bool, clock: FakeClock, tmp_path: Path
) -> None:
    """Receives five, handles them one by one; is killed at the first request, at the second, ... until a life needs
    fewer requests than that."""
    reached = 0
    for request in range(1, 60):
        server, folder = StandIn(clock, "w"), tmp_path / str(request)
        folder.mkdir()
        for number in range(5):
            server.put(f"m-{number}")
        server.dies = (request, after)
        shown: dict[str, int] = {}
        done: list[str] = []
        first = Life(folder, clock, {"w": server}, disable_heartbeat=True)
        await _work(first, server, shown, done)
        asked = len(server.asked)
        await first.die()
        server.dies = None
        await _work(second := Life(folder, clock, {"w": server}, disable_heartbeat=True), server, shown, done)
        for _ in range(5):  # a claim that was cut off comes when its lease has ended
            await clock.advance(60)
            await _work(second, server, shown, done)
        await second.die()

        assert server.open_ids == [], request
        assert set(done) == set(shown) == {f"m-{number}" for number in range(5)}
        assert max(shown.values()) <= 2, (request, shown)
        if asked < request:
            break
        reached += server.died.is_set()
    assert reached >= 7  # register, claim, five acks


async def _work(life: Life, server: StandIn, shown: dict[str, int], done: list[str]) -> None:
    """Handles what waits, until nothing does or the process is dead."""
    if not life._tasks:
        await life.begin()
    for id_ in life.ids:
        shown[id_] = shown.get(id_, 0) + 1
    while life.ids and (server.dies is None or not server.died.is_set()):
        handling = asyncio.create_task(life.handle(life.ids[0]))
        done.append(life.ids[0])
        await settle()
        if not handling.done():  # cut off in the middle
            handling.cancel()
            await asyncio.gather(handling, return_exceptions=True)
            return


@requirement("G10")
async def test_without_its_file_a_process_gets_everything_again_when_the_lease_ends(
    server: StandIn, clock: FakeClock, tmp_path: Path
) -> None:
    server.put("m-0")
    async with alive(tmp_path, clock, server):
        pass
    CursorFile(tmp_path, "w", single=False).reset()
    async with alive(tmp_path, clock, server) as life:
        assert life.ids == []
        for _ in range(13):
            await clock.advance(10)
        assert life.ids == ["m-0"]


@requirement("G10")
async def test_a_file_full_of_strange_messages_stops_nothing(server: StandIn, clock: FakeClock, tmp_path: Path) -> None:
    strange = CursorState(held={"m-9": 3}, handled={"m-8": 1})
    CursorFile(tmp_path, "w", single=False).save(strange)
    server.put("m-8")
    server.put("m-9")
    async with alive(tmp_path, clock, server) as life:
        assert life.ids == ["m-9"]
