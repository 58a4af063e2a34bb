"""When a seat's token is refused for good, who is told, and what it says of everything else."""

from pathlib import Path
from typing import Any

import pytest

from molecule_core.agent.client.auth_failures import AuthFailures, is_workspace_inaccessible
from molecule_core.agent.mailbox.acks import AckTracker
from molecule_core.agent.mailbox.cursors import CursorFile
from molecule_core.client.api import ApiError, NoAnswerError
from testing.clocks import FakeClock
from tests.agent.inbox_server import StandIn, StandInApi
from tests.agent.mailbox.test_membership import UNAUTHORIZED, alive
from tests.requirements import requirement


@requirement("G6")
@pytest.mark.parametrize(
    ("taken", "is_fixed", "status", "minutes", "lost"),
    [
        (False, False, 401, 0, True),  # at the start nobody renews it
        (False, True, 403, 0, True),
        (True, True, 401, 0, True),  # it stands in the environment
        (True, False, 401, 1, False),  # somebody may be writing the file
        (True, False, 401, 6, True),
        (True, True, 403, 1, False),
        (True, True, 403, 6, True),
    ],
)
def test_a_token_is_lost_if_nobody_can_renew_it_or_nobody_has_for_long(
    taken: bool, is_fixed: bool, status: int, minutes: int, lost: bool, clock: FakeClock
) -> None:
    at_first, told = list[str](), list[str]()
    refusals = AuthFailures("w", clock=clock, is_fixed=is_fixed, on_refused=at_first.append, on_lost=told.append)
    if taken:
        refusals.record_success()
    error = ApiError(status, {"error": "not its token"})
    refusals.record_failure(error)
    clock.at += minutes * 60_000_000
    if minutes:
        refusals.record_failure(error)
    assert (bool(told), bool(at_first)) == (lost, not taken)
    assert all("the server rejected the token" in each for each in told)
    refusals.record_success()
    told.clear()
    if not is_fixed:
        refusals.record_failure(error)
        assert not told, "it begins anew"


@requirement("G6")
def test_a_renewed_token_has_a_time_of_its_own(clock: FakeClock) -> None:
    told = list[str]()
    refusals = AuthFailures("w", clock=clock, is_fixed=False, on_refused=None, on_lost=told.append)
    refusals.record_success()
    for minutes, renewed, lost in ((0, False, False), (4, True, False), (2, False, False), (4, False, False)):
        clock.at += minutes * 60_000_000
        refusals.record_failure(UNAUTHORIZED, renewed=renewed)
        assert bool(told) is lost
    clock.at += 60_000_000
    refusals.record_failure(UNAUTHORIZED)
    assert told


class Choosy(StandIn):
    """A server that takes one token, and may be away."""

    def __init__(self, clock: FakeClock, token: str) -> None:
        super().__init__(clock, "w")
        self.takes = token
        self.away = False

    async def serve(self, token: str, *request: Any) -> Any:
        if self.away:
            raise NoAnswerError("away")
        if token != self.takes:
            raise UNAUTHORIZED
        return await super().serve(token, *request)


@requirement("G6", "AR7")
async def test_a_file_that_was_renewed_in_time_is_read_before_anything_is_lost(
    clock: FakeClock, tmp_path: Path
) -> None:
    file, server, lost = tmp_path / "token", Choosy(clock, "token-of-w"), list[str]()
    file.write_text("token-of-w")
    async with alive(tmp_path, clock, server, files={"w": file}, lost=lost.append) as life:
        server.takes = "a-new-token"
        await clock.advance(60)
        assert (life.seats["w"].state, lost) == ("refused", [])
        server.away = True
        file.write_text("a-new-token")
        await clock.advance(600)
        assert life.seats["w"].state == "away"
        server.away = False
        for _ in range(2):  # it asks once with the old one
            await clock.advance(61)
        assert (life.seats["w"].state, lost) == ("leading", [])


@requirement("G6", "AR7")
async def test_a_file_that_was_renewed_while_the_process_began_is_read_before_the_start_has_failed(
    clock: FakeClock, tmp_path: Path
) -> None:
    file, lost = tmp_path / "token", list[str]()
    file.write_text("a-new-token")
    server = Choosy(clock, "a-new-token")
    async with alive(tmp_path, clock, server, files={"w": file}, lost=lost.append) as life:
        await clock.advance(3)
        assert (life.seats["w"].state, life.refusals, lost) == ("leading", [], [])


@requirement("G6", "AR7")
@pytest.mark.parametrize("wish", [{"disable_inbox": True}, {"inbox_messages": 1}])
async def test_a_token_that_is_taken_away_is_noticed_by_the_heartbeat_where_no_mail_is_asked_for(
    wish: dict[str, Any], clock: FakeClock, tmp_path: Path
) -> None:
    server, lost = Choosy(clock, "token-of-w"), list[str]()
    server.put("m-1")
    async with alive(tmp_path, clock, server, lost=lost.append, **wish) as life:
        await clock.advance(30)
        assert (life.seats["w"].state, lost) == ("leading", [])
        server.takes = "another"
        await clock.advance(30)
        assert life.seats["w"].state == "refused" and "the server rejected the token" in lost[0]


NOT_FOUND = ApiError(404, {"error": "workspace not found", "code": "not_found"})


@requirement("G6", "AR7")
async def test_the_token_of_another_workspace_is_told_as_such_and_a_page_that_says_404_is_none(
    clock: FakeClock, tmp_path: Path
) -> None:
    server, lost = StandIn(clock, "w"), list[str]()
    server.refuses["/"] = ApiError(404, {"error": "404 page not found"})
    async with alive(tmp_path, clock, server, lost=lost.append) as life:
        assert (life.seats["w"].state, lost) == ("away", [])
        server.refuses["/"] = NOT_FOUND
        await clock.advance(3)
        assert life.seats["w"].state == "refused"
        assert lost[0].startswith(
            "workspace w: the token belongs to another workspace, or the workspace does not exist"
        )
        server.refuses.clear()
        await clock.advance(10)
        assert life.seats["w"].state == "leading"


@requirement("G6")
@pytest.mark.parametrize("trouble", [NOT_FOUND, UNAUTHORIZED, NoAnswerError("away"), None])
async def test_what_is_not_found_is_about_the_seat_unless_the_server_knows_the_seat(
    trouble: Exception | None, clock: FakeClock, tmp_path: Path
) -> None:
    class Known(StandIn):
        async def _rows(self, query: dict[str, Any]) -> Any:
            return []

    server, acks = Known(clock, "w"), AckTracker("w", CursorFile(tmp_path, "w", single=True))
    api = StandInApi(server, "a-token")
    if trouble is not None:
        server.refuses["/w/activity"] = trouble
    assert await is_workspace_inaccessible(NOT_FOUND, api, "w") is (trouble is not None)
    assert not await is_workspace_inaccessible(ApiError(409, {"error": "no"}), api, "w")
    acks.take_over(1)
    acks.mark_handled("m-1", 1)
    server.refuses["/activity/ack"] = NOT_FOUND
    await acks.confirm_ack(api, "m-1")
    assert acks.is_pending("m-1") is (trouble is not None)


@requirement("G10", "P1")
async def test_a_disk_that_takes_nothing_stops_no_mail(
    clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = StandIn(clock, "w")
    async with alive(tmp_path, clock, server) as life:
        await clock.advance(1)

        def full(self: CursorFile, remembered: Any) -> None:
            raise OSError("No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(CursorFile, "save", full)
            server.put("m-1")
            await clock.advance(60)
            seat = life.seats["w"]
            assert (seat.state, [each.message.activity_id for each in life.inbox.entries()]) == ("leading", ["m-1"])
            (entry,) = life.inbox.entries()
            assert await seat.ack_message("m-1", entry.message.attempt)
            await clock.advance(60)
        assert (server.open_ids, list(life.inbox.entries())) == ([], [])
        assert [each.levelname for each in caplog.records if "cannot be stored" in each.message] == ["ERROR"]
