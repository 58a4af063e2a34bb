"""Whatever happens to a task while somebody waits for its result, and whenever: the wait keeps to its time and its
slices, tells only what is further than before, gives the task once, and ends with what the task has come to."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from molecule_core.tools.runners import delegation_tools
from molecule_core.tools.schemas.delegations import DelegateTaskArguments
from molecule_core.tools.spec import ToolError
from testing.clocks import FakeClock, settle
from tests.requirements import requirement
from tests.tools.delegation_board import TASK, Board

_OPEN = [("queued", "waiting"), ("queued", "claimed"), ("queued", "working"), ("unknown_after_send", "waiting")]
_ENDS = [("completed", "ended"), ("failed", "ended"), ("cancelled", "ended")]
_HICCUP = ToolError("too much is asked", "rate_limited")

steps = st.lists(
    st.one_of(
        st.tuples(st.just("time"), st.integers(1, 30)),
        st.tuples(st.just("move"), st.sampled_from(_OPEN)),
        st.tuples(st.just("end"), st.sampled_from(_ENDS)),
        st.tuples(st.just("holds"), st.booleans()),
        st.tuples(st.just("refuses"), st.sampled_from(["wait", TASK, ""])),
    ),
    max_size=12,
)


async def _play(wait: int, script: list[tuple[str, Any]]) -> list[str]:
    """One wait, held to all that a wait promises; where it gave the task."""
    clock = FakeClock()
    board = Board(clock)
    told: list[tuple[float, float | None]] = []

    async def progress(value: float, total: float | None, message: str) -> None:
        assert message
        told.append((value, total))

    given_task = DelegateTaskArguments(workspace_id="peer", task="Make tea", wait=wait)
    began = clock.monotonic()
    ended: list[float] = []
    call = asyncio.create_task(
        delegation_tools.run([("own", board)], given_task, "toolu_1", clock=clock, progress=progress)
    )
    call.add_done_callback(lambda _: ended.append(clock.monotonic()))
    await settle()
    for name, value in script:
        match name:
            case "time":
                for _ in range(value):
                    await clock.advance(1)
            case "holds":
                board.holds = value
            case "refuses":
                board.refuses = {value: _HICCUP} if value else {}
            case _ if board.status not in [status for status, _ in _ENDS]:
                board.move(*value, **({"delivered": "here"} if name == "end" else {}))
        await settle()
    for _ in range(wait + 1):
        await clock.advance(1)
    assert call.done()
    receipt = call.result()

    assert ended[0] - began <= wait
    assert not any(path.endswith("/cancel") for path in board.paths)
    waits = [body["wait"] for body in board.bodies if body and "wait" in body]
    assert all(0 < each <= delegation_tools.LONG_POLL_SECONDS for each in waits)
    # A second between two looks that have shown the same, and one more for each time that the task has moved.
    assert len(waits) <= wait + len(script) + 1
    assert told == sorted(told) and all(value < wait and total == wait for value, total in told)
    assert (receipt["task_id"], receipt["workspace_id"]) == (TASK, "own")
    assert receipt["settled"] is (receipt["status"] in [status for status, _ in _ENDS])
    assert receipt["settled"] or "inbox" in receipt["note"]
    return [path for path in board.paths if path.endswith("/delegate")]


@requirement("D10")
@settings(max_examples=150, deadline=None)
@given(wait=st.integers(0, 70), script=steps)
def test_a_wait_keeps_to_its_time_and_ends_with_what_the_task_has_come_to(
    wait: int, script: list[tuple[str, Any]]
) -> None:
    assert asyncio.run(_play(wait, script)) == ["/workspaces/own/delegate"]
