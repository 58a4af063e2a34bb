"""The walks of the tools about delegations: how long they wait, what they say meanwhile, as whom they go, and under
which name a repeated call is known. Time stands still between the moves of a test."""

import asyncio
from typing import Any

import pytest

from molecule_core.tools.registry import TOOLS, find_tool
from molecule_core.tools.runners import delegation_tools
from molecule_core.tools.spec import NO_ANSWER_CODE, LocalCall, ToolError
from molecule_core.wire.schemas.delegations import DelegationProgress, DelegationTimelineEntry
from testing.clocks import FakeClock, settle
from testing.waits import bounded
from tests.requirements import requirement
from tests.tools.delegation_board import TASK, Board

Told = list[tuple[float, float | None, str]]


class Seated:
    """An agent with some seats, each on a board."""

    def __init__(self, clock: FakeClock, **boards: Board) -> None:
        self.clock = clock
        self.seats = list(boards.items())
        self.progressed: Told = []

    async def progress(self, value: float, total: float | None, message: str) -> None:
        """What the host is told."""
        self.progressed.append((value, total, message))

    async def call(self, tool: str, call: str = "", **given: Any) -> dict[str, Any]:
        """Runs a tool as a host does, that named the call so."""
        spec = find_tool(tool)
        assert spec is not None
        arguments = spec.parse_arguments(given)
        return await delegation_tools.run(self.seats, arguments, call, clock=self.clock, progress=self.progress)

    async def refused(self, tool: str, **given: Any) -> ToolError:
        """Why a tool was refused."""
        with pytest.raises(ToolError) as refused:
            await bounded(self.call(tool, **given))
        return refused.value


@pytest.fixture
def board(clock: FakeClock) -> Board:
    """A server on which `own` gives `peer` a task."""
    return Board(clock)


@pytest.fixture
def agent(clock: FakeClock, board: Board) -> Seated:
    """Who sits in `own` alone."""
    return Seated(clock, own=board)


GIVEN = {"workspace_id": "peer", "task": "Make tea"}


async def begun(call: Any) -> "asyncio.Task[dict[str, Any]]":
    """A call that waits."""
    task = asyncio.create_task(call)
    await settle()
    return task


# -- waiting -----------------------------------------------------------------------------------------------------------


@requirement("D10")
async def test_a_result_that_comes_in_time_is_the_answer_of_the_call(
    agent: Seated, board: Board, clock: FakeClock
) -> None:
    waiting = await begun(agent.call("delegate_task", **GIVEN))
    await clock.advance(1)
    await clock.advance(6)
    board.move("completed", "ended", result="Two cups.", delivered="here")
    told = await bounded(waiting)
    assert (told["settled"], told["status"], told["result"], told["delivered"]) == (
        *(True, "completed"),
        *("Two cups.", "here"),
    )
    assert told["task_id"] == told["delegation_id"] == TASK
    assert (told["workspace_id"], told["target_id"], told["note"]) == ("own", "peer", "Answered, not verified.")
    assert [(path, body) for _, path, body, _ in board.asked] == [
        ("/workspaces/own/delegate", {"target_id": "peer", "task": "Make tea", "wait": 1}),
        (f"/delegations/{TASK}", None),
        (f"/workspaces/own/delegations/{TASK}/wait", {"wait": 10}),
    ]


@requirement("D10")
async def test_a_result_that_does_not_come_in_time_leaves_a_receipt_that_says_what_to_do(
    agent: Seated, board: Board, clock: FakeClock
) -> None:
    board.told["warning"] = "queued behind 2; last seen 4 min ago"
    waiting = await begun(agent.call("delegate_task", **GIVEN))
    await clock.advance(20)
    told = await bounded(waiting)
    assert (told["settled"], told["status"], told["phase"], told["result"]) == (False, "queued", "waiting", "")
    assert "waiting for the peer (queued behind 2; last seen 4 min ago)" in told["note"]
    assert "delegation_result" in told["note"] and "check_task_status" in told["note"]
    assert agent.progressed == []  # the time was over when the first request came back


@requirement("D10")
async def test_a_long_wait_goes_slice_by_slice_and_tells_progress_before_each(
    agent: Seated, board: Board, clock: FakeClock
) -> None:
    board.queue_position = 2
    waiting = await begun(agent.call("delegate_task", **GIVEN, wait=50))
    await clock.advance(1)
    board.queue_position, board.progress = None, DelegationProgress(current_step="boils water", percent=40)
    for seconds in (10, 10, 10, 10, 9):
        await clock.advance(seconds)
    told = await bounded(waiting)
    assert told["settled"] is False
    boils = "boils water (40 %)"
    later = [(at, 50, boils) for at in (11, 21, 31, 41)]
    assert agent.progressed == [(1, 50, "queued behind 2"), *later]  # clients with a time-out of 20 s stay
    waits = [body["wait"] for path, body in zip(board.paths, board.bodies, strict=True) if body is not None]
    assert waits == [1, 10, 10, 10, 10, 9]
    assert [path for path in board.paths if path.endswith("/wait")] == [f"/workspaces/own/delegations/{TASK}/wait"] * 5


async def test_a_caller_reads_until_when_its_peer_is_limited(agent: Seated, board: Board, clock: FakeClock) -> None:
    board.limited_until, board.queue_position = "2026-11-22T14:05:00Z", 2
    waiting = await begun(agent.call("delegate_task", **GIVEN, wait=30))
    for _ in range(3):
        await clock.advance(11)
    await bounded(waiting)
    assert {text for *_, text in agent.progressed} == {"the peer is limited until 2026-11-22T14:05:00Z"}
    status = await bounded(agent.call("check_task_status", task_id=TASK))
    assert status["limited_until"] == "2026-11-22T14:05:00Z"


@requirement("D10")
async def test_why_it_hardly_begins_is_not_said_any_more_when_it_has_begun(
    agent: Seated, board: Board, clock: FakeClock
) -> None:
    board.told["warning"] = "queued behind 2"
    waiting = await begun(agent.call("delegate_task", **GIVEN, wait=40))
    await clock.advance(20)
    board.move("queued", "working", warning="")
    await settle()
    await clock.advance(20)
    told = await bounded(waiting)
    assert "in progress. The result" in told["note"]
    assert "queued behind" not in told["note"]


@requirement("D10")
async def test_what_moves_within_a_slice_is_told_at_once(agent: Seated, board: Board, clock: FakeClock) -> None:
    waiting = await begun(agent.call("delegate_task", **GIVEN, wait=300))
    await clock.advance(20)
    await clock.advance(5)
    board.move("queued", "claimed")
    await settle()
    assert agent.progressed == [(20, 300, "waiting for the peer"), (25, 300, "picked up by the peer")]
    board.move("completed", "ended", result="Done.", delivered="here")
    assert (await bounded(waiting))["result"] == "Done."


async def test_a_server_that_holds_no_request_is_not_flooded(agent: Seated, board: Board, clock: FakeClock) -> None:
    board.holds = False
    waiting = await begun(agent.call("delegate_task", **GIVEN, wait=4))
    for _ in range(8):
        await clock.advance(0.5)
    assert (await bounded(waiting))["settled"] is False
    assert len([path for path in board.paths if path.endswith("/wait")]) == 4


@requirement("D10")
async def test_a_wait_that_cannot_be_gone_on_with_still_gives_the_receipt(
    agent: Seated, board: Board, clock: FakeClock
) -> None:
    board.refuses["wait"] = ToolError("the server is being restarted.", "restarting")
    waiting = await begun(agent.call("delegate_task", **GIVEN, wait=300))
    await clock.advance(20)
    told = await bounded(waiting)
    assert (told["task_id"], told["settled"]) == (TASK, False)
    assert "waiting for its result failed: the server is being restarted." in told["note"]


@requirement("D10")
async def test_a_wait_goes_on_while_the_server_is_away(agent: Seated, board: Board, clock: FakeClock) -> None:
    board.refuses["wait"] = ToolError("the server did not answer", NO_ANSWER_CODE)
    waiting = await begun(agent.call("delegate_task", **GIVEN, wait=300))
    for seconds in (20, 1, 1):
        await clock.advance(seconds)
    assert not waiting.done()
    board.refuses.clear()
    await clock.advance(1)
    board.move("completed", "ended", result="Done.", delivered="here")
    told = await bounded(waiting)
    assert (told["settled"], told["result"]) == (True, "Done.")
    assert "waiting for its result failed" not in told["note"]


@requirement("D10")
async def test_looking_how_far_it_is_never_costs_the_wait(agent: Seated, board: Board, clock: FakeClock) -> None:
    board.refuses[TASK] = ToolError("too much is asked", "rate_limited")
    waiting = await begun(agent.call("delegate_task", **GIVEN, wait=40))
    await clock.advance(20)
    board.move("completed", "ended", result="Done.", delivered="here")
    assert (await bounded(waiting))["result"] == "Done."
    assert agent.progressed == [(20, 40, "waiting for the peer")]


@requirement("D10")
async def test_who_gives_up_ends_the_wait_and_nothing_else(agent: Seated, board: Board, clock: FakeClock) -> None:
    waiting = await begun(agent.call("delegate_task", **GIVEN, wait=300))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await bounded(waiting)
    assert [path.rsplit("/", 1)[1] for path in board.paths] == ["delegate"]
    assert board.status == "queued"


@requirement("D10")
async def test_without_waiting_there_is_one_request_and_no_wait_in_it(agent: Seated, board: Board) -> None:
    told = await bounded(agent.call("delegate_task_async", **GIVEN, deadline_seconds=60))
    assert (told["settled"], told["task_id"]) == (False, TASK)
    assert board.bodies == [{"target_id": "peer", "task": "Make tea", "deadline_seconds": 60}]
    board.asked.clear()
    assert (await bounded(agent.call("delegate_task", **GIVEN, wait=0)))["settled"] is False
    assert board.bodies == [{"target_id": "peer", "task": "Make tea"}]


@requirement("D8", "D10")
async def test_a_failure_is_a_result_with_its_reason_and_advice(agent: Seated, board: Board) -> None:
    board.move("failed", "ended", error="no answer", reason="unreachable", advice="Look at its url.", delivered="here")
    told = await bounded(agent.call("delegate_task", **GIVEN))
    assert (told["status"], told["settled"]) == ("failed", True)
    assert (told["error"], told["reason"], told["advice"]) == ("no answer", "unreachable", "Look at its url.")


@requirement("D7")
async def test_a_result_that_somebody_else_took_is_said_to_be_in_the_inbox(agent: Seated, board: Board) -> None:
    board.move("completed", "ended", delivered="inbox")
    told = await bounded(agent.call("delegate_task", **GIVEN))
    assert (told["result"], told["delivered"]) == ("", "inbox")
    assert "in your inbox" in told["note"]


@requirement("D9")
async def test_a_hit_is_told_as_one_also_after_a_wait(agent: Seated, board: Board, clock: FakeClock) -> None:
    board.told["idempotent_hit"] = True
    waiting = await begun(agent.call("delegate_task", **GIVEN, wait=40))
    await clock.advance(20)
    board.told["idempotent_hit"] = False
    board.move("completed", "ended", result="Done.", delivered="here")
    told = await bounded(waiting)
    assert told["idempotent_hit"] is True
    assert "already delegated" in told["note"]


# -- the name of a call ------------------------------------------------------------------------------------------------


@requirement("D9")
async def test_a_call_that_the_host_names_has_a_key_of_the_seat_and_that_name(agent: Seated, board: Board) -> None:
    for tool in ("delegate_task", "delegate_task_async"):
        wait = {"wait": 0} if tool == "delegate_task" else {}
        await bounded(agent.call(tool, "toolu_1", **GIVEN, **wait))
    assert [headers for *_, headers in board.asked] == [{"idempotency-key": "own:toolu_1"}] * 2


@requirement("D9")
async def test_a_call_that_nobody_names_has_no_key(agent: Seated, board: Board) -> None:
    await bounded(agent.call("delegate_task_async", **GIVEN))
    assert board.asked[0][3] == {}


def test_progress_is_told_only_to_a_host_that_asks_for_it(agent: Seated) -> None:
    assert delegation_tools.requested_progress(agent.progress, {}) is None
    assert delegation_tools.requested_progress(agent.progress, {"progressToken": 0}) == agent.progress


# -- as whom -----------------------------------------------------------------------------------------------------------


def three(clock: FakeClock, **friends: bool | ToolError) -> tuple[Seated, dict[str, Board]]:
    """An agent in three workspaces, of which some may talk to the peer."""
    boards = {name: Board(clock, source=name) for name in ("a", "b", "c")}
    for name, board in boards.items():
        board.friends = {name: friends.get(name, False)}
    return Seated(clock, **boards), boards


def delegated(boards: dict[str, Board]) -> list[str]:
    """Which of them delegated."""
    return [name for name, board in boards.items() if f"/workspaces/{name}/delegate" in board.paths]


@requirement("G12")
async def test_the_only_workspace_that_can_reach_the_target_delegates(clock: FakeClock) -> None:
    agent, boards = three(clock, b=True)
    told = await bounded(agent.call("delegate_task_async", **GIVEN))
    assert (told["workspace_id"], delegated(boards)) == ("b", ["b"])
    assert boards["a"].bodies == [{"caller_id": "a", "target_id": "peer"}]


@requirement("G12")
async def test_several_that_can_reach_it_are_named_and_nothing_is_sent(clock: FakeClock) -> None:
    agent, boards = three(clock, a=True, c=True)
    refused = await agent.refused("delegate_task", **GIVEN)
    assert refused.code == "ambiguous_workspace"
    assert refused.text.endswith("Set via_workspace to one of them: a, c.")
    assert delegated(boards) == []


@requirement("G12")
async def test_none_that_can_reach_it_is_an_error_with_all_of_them(clock: FakeClock) -> None:
    agent, boards = three(clock)
    refused = await agent.refused("delegate_task_async", **GIVEN)
    assert refused.code == "unknown_workspace"
    assert "Your workspaces: a, b, c" in refused.text
    assert delegated(boards) == []


@requirement("G12")
@pytest.mark.parametrize("argument", ["via_workspace", "source_workspace_id", "_as_workspace"])
async def test_a_named_workspace_delegates_without_a_look(clock: FakeClock, argument: str) -> None:
    agent, boards = three(clock, a=True, c=True)
    told = await bounded(agent.call("delegate_task_async", **GIVEN, **{argument: "c"}))
    assert (told["workspace_id"], delegated(boards)) == ("c", ["c"])
    assert [len(board.asked) for board in boards.values()] == [0, 0, 1]


@requirement("G12")
async def test_a_workspace_of_others_is_never_gone_as(clock: FakeClock) -> None:
    agent, boards = three(clock, a=True)
    refused = await agent.refused("delegate_task_async", **GIVEN, via_workspace="x")
    assert refused.code == "unknown_workspace"
    assert [board.asked for board in boards.values()] == [[], [], []]


@requirement("G12")
async def test_a_server_that_is_away_holds_up_no_other_and_is_named_where_there_is_none(clock: FakeClock) -> None:
    away = ToolError("the server did not answer", "no_answer")
    agent, boards = three(clock, a=away, b=True)
    assert (await bounded(agent.call("delegate_task_async", **GIVEN)))["workspace_id"] == "b"
    agent, boards = three(clock, a=away)
    refused = await agent.refused("delegate_task_async", **GIVEN)
    assert (refused.code, delegated(boards)) == ("no_answer", [])


@requirement("G12")
async def test_one_of_ones_own_workspaces_can_be_the_target(clock: FakeClock) -> None:
    agent, boards = three(clock, a=True, b=True)
    told = await bounded(agent.call("delegate_task_async", workspace_id="b", task="Make tea"))
    assert (told["workspace_id"], delegated(boards)) == ("a", ["a"])


@requirement("G12")
async def test_a_task_is_looked_up_ended_and_reported_on_as_the_workspace_that_has_to_do_with_it(
    clock: FakeClock,
) -> None:
    unknown = ToolError("there is no such delegation", "not_found")
    boards = {name: Board(clock, source="b", target="c") for name in ("a", "b", "c")}
    boards["a"].refuses[TASK] = unknown
    agent = Seated(clock, **boards)
    assert (await bounded(agent.call("check_task_status", task_id=TASK)))["workspace_id"] == "b"
    assert (await bounded(agent.call("report_progress", task_id=TASK, percent=5)))["noted"] is True
    assert (await bounded(agent.call("cancel_task", task_id=TASK)))["workspace_id"] == "b"
    verbs = {name: {path for path in board.paths if "/workspaces/" in path} for name, board in boards.items()}
    path = f"delegations/{TASK}"
    assert verbs == {"a": set(), "b": {f"/workspaces/b/{path}/cancel"}, "c": {f"/workspaces/c/{path}/status"}}


@requirement("G12")
async def test_a_task_of_nobody_here_is_an_error_with_all_workspaces(clock: FakeClock) -> None:
    agent, boards = three(clock)
    for board in boards.values():
        board.refuses[TASK] = ToolError("there is no such delegation", "not_found")
    refused = await agent.refused("check_task_status", task_id=TASK)
    assert refused.code == "unknown_task"
    assert "Your workspaces: a, b, c" in refused.text


# -- what became of it -------------------------------------------------------------------------------------------------


@requirement("D10")
async def test_a_look_shows_the_state_the_time_line_the_progress_and_the_whole_result(
    agent: Seated, board: Board
) -> None:
    at = "2026-11-22T10:00:00.000000Z"
    board.timeline = (
        DelegationTimelineEntry(at, "begun", "pending", "waiting", 0, False, None),
        DelegationTimelineEntry(at, "answered", "completed", "ended", 1, True, "too late"),
    )
    board.progress = DelegationProgress(at, "boils water", ["kettle"], "soon", 40)
    result = "tea " * 20_000
    board.move("completed", "ended", result=result)
    told = await bounded(agent.call("check_task_status", task_id=TASK, workspace_id="peer"))
    assert (told["status"], told["result"], told["workspace_id"]) == ("completed", result, "own")
    assert (told["source_id"], told["target_id"]) == ("own", "peer")
    assert (told["current_step"], told["tools_used"], told["eta_hint"], told["percent"]) == (
        *("boils water", ["kettle"]),
        *("soon", 40),
    )
    assert [(each["fact"], each["late"], each["detail"]) for each in told["timeline"]] == [
        ("begun", False, ""),
        ("answered", True, "too late"),
    ]
    assert board.paths == [f"/delegations/{TASK}"]  # it settles nothing


@requirement("D11")
async def test_a_cancelled_task_is_shown_as_it_stands(agent: Seated, board: Board) -> None:
    told = await bounded(agent.call("cancel_task", task_id=TASK, reason="not wanted any more"))
    assert told["status"] == "cancelled"
    assert board.bodies == [{"reason": "not wanted any more"}]
    board.move("completed", "ended")
    assert (await bounded(agent.call("cancel_task", task_id=TASK)))["status"] == "completed"
    assert board.bodies[1] == {}


@requirement("D12")
async def test_progress_says_what_is_given_and_nothing_else(agent: Seated, board: Board) -> None:
    told = await bounded(agent.call("report_progress", task_id=TASK, current_step="boils water", percent=0))
    assert told == {"task_id": TASK, "noted": True, "status": "queued"}
    assert board.bodies == [{"current_step": "boils water", "percent": 0}]
    board.move("completed", "ended")
    await bounded(agent.call("report_progress", task_id=TASK, tools_used=["kettle"], eta_hint="soon"))
    assert board.bodies[1] == {"tools_used": ["kettle"], "eta_hint": "soon"}
    assert (await bounded(agent.call("report_progress", task_id=TASK)))["noted"] is False


@pytest.mark.parametrize("task_id", ["..", ".", "...."])
async def test_an_id_that_would_lead_somewhere_else_is_refused(agent: Seated, board: Board, task_id: str) -> None:
    for tool in ("check_task_status", "cancel_task", "report_progress"):
        assert (await agent.refused(tool, task_id=task_id)).code == "bad_arguments"
    assert board.asked == []


async def test_an_answer_of_another_version_is_said_to_be_one(agent: Seated, board: Board) -> None:
    board.phase = 7  # type: ignore[assignment]
    refused = await agent.refused("delegate_task_async", **GIVEN)
    assert refused.code == "unknown_answer"
    assert "have different versions" in refused.text


@requirement("G1", "G5")
def test_every_tool_about_delegations_is_one_of_these_walks() -> None:
    declared = {spec.call.name for spec in TOOLS if isinstance(spec.call, LocalCall)}
    assert set(delegation_tools.TOOL_NAMES) <= declared
    assert [spec.name for spec in TOOLS if spec.name in delegation_tools.TOOL_NAMES] == list(
        delegation_tools.TOOL_NAMES
    )


async def test_what_is_no_tool_about_delegations_is_not_run(agent: Seated) -> None:
    spec = find_tool("inbox_peek")
    assert spec is not None
    with pytest.raises(TypeError, match="no tool about delegations"):
        await delegation_tools.run(agent.seats, spec.parse_arguments({}), clock=agent.clock)
