"""`molecule delegate`, `status`, `cancel` as a runtime without MCP calls them, and `molecule delegations` as an
operator does, with a server whose tasks stand as a test wants. What the real routes answer is shown in
tests/delegations."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from molecule_core.cli import molecule
from molecule_core.tools.spec import APPROVAL_HEADER, ToolError
from molecule_core.wire.schemas.delegations import DelegationProgress, DelegationTimelineEntry
from testing.clocks import FakeClock
from testing.waits import PROCESS_START_SECONDS
from tests.requirements import requirement
from tests.tools.delegation_board import PART, TASK, Board
from tests.tools.delegation_board_server import behind_a_socket


@pytest.fixture
def board() -> Board:
    """A server on which `own` gives `peer` a task."""
    return Board(FakeClock())


class Shell:
    """A shell whose environment names a seat, or the operator's state."""

    def __init__(self, url: str, home: Path) -> None:
        self.seat = {"WORKSPACE_ID": "own", "MOLECULE_WORKSPACE_TOKEN": "t", "PLATFORM_URL": url}
        self.seat |= {"CONFIGS_DIR": str(home)}
        self.operator = {"ADMIN_TOKEN": "a" * 43, "MOLECULE_STATE_DIR": str(home), "MOLECULE_WORKSPACES": ""}
        self.port = url.rpartition(":")[2]

    async def __call__(self, *args: str, told: str = "") -> Result:
        """What a command of a seat says."""
        return await self._run(args, self.seat, told)

    async def operate(self, *args: str) -> Result:
        """What a command of the operator says."""
        return await self._run(("delegations", *args, "--port", self.port), self.operator, "")

    async def _run(self, args: tuple[str, ...], env: dict[str, str], told: str) -> Result:
        async with asyncio.timeout(PROCESS_START_SECONDS):
            return await asyncio.to_thread(CliRunner().invoke, molecule, args, told, env)


@pytest.fixture
async def shell(board: Board, tmp_path: Path) -> AsyncIterator[Shell]:
    """A shell that reaches the board."""
    async with behind_a_socket(board) as url:
        yield Shell(url, tmp_path)


# -- delegate ----------------------------------------------------------------------------------------------------------


@requirement("O1")
async def test_a_peer_is_named_by_its_name_and_a_wrong_name_is_answered_with_near_ones(
    shell: Shell, board: Board
) -> None:
    said, wrong = await shell("delegate", "--async", "Tea maker", "Make tea"), await shell("delegate", "Tea mker", "x")
    assert said.exit_code == 0
    assert board.bodies == [{"target_id": "peer", "task": "Make tea"}]
    assert "such as: Tea maker" in str(wrong.exception)


@requirement("D10", "G1")
async def test_what_is_done_in_time_is_printed_with_the_id_before_it(board: Board, shell: Shell) -> None:
    board.move("completed", "ended", result="Two cups.", delivered="here")
    said = await shell("delegate", "peer", "Make tea")
    assert (said.exit_code, said.stdout) == (0, f"{TASK}  completed\nTwo cups.\n")
    assert said.stderr == "Answered, not verified.\n"
    assert board.bodies == [{"target_id": "peer", "task": "Make tea", "wait": 20}]
    assert board.asked[0][3] == {}  # a shell has no name for a call


@requirement("D10", "Q4")
@pytest.mark.parametrize("flags", [(), ("--async",)])
async def test_an_approval_is_sent_with_the_task(board: Board, shell: Shell, flags: tuple[str, ...]) -> None:
    board.move("completed", "ended", result="Two cups.", delivered="here")
    assert (await shell("delegate", "peer", "Make tea", "--approval", "a-1", *flags)).exit_code == 0
    assert board.asked[0][3] == {APPROVAL_HEADER: "a-1"}


@requirement("D10", "G1")
async def test_what_is_not_done_in_time_ends_with_three_and_its_id(board: Board, shell: Shell) -> None:
    said = await shell("delegate", "peer", "-", "--wait", "0", "--deadline", "60", told="Make tea\n")
    assert (said.exit_code, said.stdout) == (3, f"{TASK}  queued\n")
    assert "arrives in your inbox" in said.stderr
    assert board.bodies == [{"target_id": "peer", "task": "Make tea", "deadline_seconds": 60}]


@requirement("D10", "G1")
async def test_what_is_begun_without_waiting_ends_with_nought_and_its_id(board: Board, shell: Shell) -> None:
    said = await shell("delegate", "--async", "peer", told="Make tea")
    assert (said.exit_code, said.stdout) == (0, f"{TASK}  queued\n")
    assert board.bodies == [{"target_id": "peer", "task": "Make tea"}]


@requirement("D8", "G1")
async def test_what_has_failed_ends_with_one_and_says_why_and_what_to_do(board: Board, shell: Shell) -> None:
    board.move("failed", "ended", error="no answer", reason="unreachable", advice="Look at its url.", delivered="here")
    said = await shell("delegate", "peer", "Make tea")
    assert (said.exit_code, said.stdout) == (1, f"{TASK}  failed\n")
    assert said.stderr == "molecule: unreachable: no answer Look at its url.\n"


@requirement("D13", "G1")
async def test_what_is_refused_ends_with_one_and_nothing_on_standard_output(board: Board, shell: Shell) -> None:
    board.refuses["delegate"] = ToolError("this delegation is refused: too deep (8 of 8).", "delegation_limit")
    said = await shell("delegate", "peer", "Make tea")
    assert (said.exit_code, said.stdout) == (1, "")
    assert said.stderr == "molecule: this delegation is refused: too deep (8 of 8).\n"
    assert len(board.asked) == 1


async def test_to_wait_and_not_to_wait_is_called_wrongly(board: Board, shell: Shell) -> None:
    said = await shell("delegate", "--async", "--wait", "5", "peer", "Make tea")
    assert "--async and --wait cannot be combined" in str(said.exception)
    assert (await shell("delegate", "peer", "Make tea", "--wait", "301")).exit_code == 2
    assert board.asked == []


# -- status and cancel -------------------------------------------------------------------------------------------------


@requirement("D10", "G1")
async def test_a_status_shows_the_time_line_the_progress_and_the_whole_result(board: Board, shell: Shell) -> None:
    at = "2026-11-22T10:00:00.000000Z"
    board.timeline = (
        DelegationTimelineEntry(at, "begun", "pending", "waiting", 0, False, None),
        DelegationTimelineEntry(at, "answered", "completed", "ended", 1, True, "too\nlate"),
    )
    board.progress = DelegationProgress(at, "boils water", [], "soon", 40)
    board.move("completed", "ended", result="tea " * 1000)
    said = await shell("status", TASK)
    assert said.exit_code == 0
    lines = said.stdout.splitlines()
    assert lines[0] == f"{TASK}  completed (ended)"
    assert lines[1].split() == ["2026-11-22T10:00:00", "begun", "pending/waiting"]
    assert lines[2].endswith("answered     completed/ended  too late  (late, no effect)")
    assert lines[3:] == ["progress: boils water, 40 %, soon", "tea " * 1000]


@requirement("D11", "G1")
async def test_a_task_is_cancelled_with_a_reason(board: Board, shell: Shell) -> None:
    said = await shell("cancel", TASK, "--reason", "not wanted")
    assert (said.exit_code, said.stdout) == (0, f"{TASK}  cancelled (ended)\n")
    assert board.asked == [("POST", f"/workspaces/own/delegations/{TASK}/cancel", {"reason": "not wanted"}, {})]


async def test_an_unknown_task_is_refused(board: Board, shell: Shell) -> None:
    board.refuses[TASK] = ToolError("there is no such delegation", "not_found")
    said = await shell("status", TASK)
    assert (said.exit_code, said.stderr) == (1, "molecule: there is no such delegation\n")


# -- the operator ------------------------------------------------------------------------------------------------------


@requirement("O1")
async def test_an_operator_lists_and_reads_delegations(board: Board, shell: Shell) -> None:
    listed = await shell.operate("list", "--state", "open", "--org", "o-1", "--limit", "7")
    assert (listed.exit_code, listed.stdout) == (0, f"{TASK}  2026-11-22T10:00:00  queued  Own -> Peer: Make tea\n")
    assert board.paths == ["/session", "/orgs", "/admin/delegations?org_id=o-1&state=open&limit=7"]
    board.move("failed", "ended", error="no answer", reason="unreachable", advice="Look at its url.")
    shown = (await shell.operate("show", TASK)).stdout.splitlines()
    assert shown == [
        f"{TASK}  2026-11-22T10:00:00  failed [unreachable]  Own -> Peer: Make tea",
        "no answer Look at its url.",
        "task: Make tea",
        f"  {PART}  queued  Peer -> Aide: Make tea",
    ]
    board.earlier = 3
    assert "  (3 earlier entries not shown)" in (await shell.operate("show", TASK)).stdout.splitlines()
    assert json.loads((await shell.operate("show", TASK, "--json")).stdout)["task"] == "Make tea"
    assert json.loads((await shell.operate("list", "--json")).stdout)[0]["delegation_id"] == TASK
    board.listed = False
    assert (await shell.operate("list")).stdout == "no delegations\n"


@requirement("O1")
async def test_an_operator_cancels_and_retries_as_the_workspace_that_delegated(board: Board, shell: Shell) -> None:
    retried = await shell.operate("retry", TASK)
    assert (retried.exit_code, retried.stdout) == (0, f"{TASK}  queued  retry of {TASK}\n")
    cancelled = await shell.operate("cancel", TASK, "--reason", "not wanted")
    assert "cancelled  Own -> Peer" in cancelled.stdout
    assert [(path, body) for method, path, body, _ in board.asked if method == "POST"] == [
        (f"/workspaces/own/delegations/{TASK}/retry", None),
        (f"/workspaces/own/delegations/{TASK}/cancel", {"reason": "not wanted"}),
    ]


@requirement("O1")
async def test_an_operator_sees_how_many_stand_how(board: Board, shell: Shell) -> None:
    said = (await shell.operate("stats")).stdout.splitlines()
    assert [line.split() for line in said[:2]] == [["failed", "2"], ["expired", "2"]]
    assert said[2] == "open 1, stuck 0, median duration: 2.5 s"
    assert json.loads((await shell.operate("stats", "--json")).stdout)["median_seconds"] == 2.5


async def test_an_operator_is_told_what_is_wrong(board: Board, shell: Shell) -> None:
    board.refuses[TASK] = ToolError("there is no such delegation", "not_found")
    said = await shell.operate("show", TASK)
    assert "there is no such delegation" in str(said.exception)
    shell.port = "9"
    assert "no server responds" in str((await shell.operate("stats")).exception)
