"""Who leads, among real processes that are really killed."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from molecule_core.agent.mailbox.leader import LeaderLock
from testing.processes import ROOT
from testing.waits import PROCESS_START_SECONDS
from tests.requirements import requirement

CONTENDER = """
import sys
from pathlib import Path
from molecule_core.agent.mailbox.leader import LeaderLock
one = LeaderLock(Path(sys.argv[1]), "w")
print(one.try_acquire(), one.fence, flush=True)
sys.stdin.read()
"""


@asynccontextmanager
async def contender(folder: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A process that wants to lead; and what came of it."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CONTENDER, str(folder), stdin=pipe, stdout=pipe, cwd=ROOT / "src"
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PROCESS_START_SECONDS):
            yield process, (await process.stdout.readline()).decode().strip()
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@requirement("G14")
async def test_one_process_leads_and_kill_9_hands_over_to_the_next_with_a_higher_fence(tmp_path: Path) -> None:
    async with contender(tmp_path) as (first, said), contender(tmp_path) as (_, said_second):
        ours = LeaderLock(tmp_path, "w")
        assert (said, said_second, ours.try_acquire()) == ("True 1", "False 0", False)
        assert ours.leader_pid() == first.pid
        first.kill()
        await first.wait()

        assert ours.try_acquire()
        assert ours.fence == 2 and ours.is_held()
        async with contender(tmp_path) as (_, said_third):
            assert said_third == "False 0"


@requirement("G14")
async def test_of_many_processes_that_begin_at_once_exactly_one_leads(tmp_path: Path) -> None:
    async def one() -> tuple[str, asyncio.subprocess.Process]:
        entered = contender(tmp_path)
        process, said = await entered.__aenter__()
        open_ones.append(entered)
        return said, process

    open_ones: list[object] = []
    results = await asyncio.gather(*(one() for _ in range(6)))
    for entered in open_ones:
        await entered.__aexit__(None, None, None)  # type: ignore[attr-defined]
    assert sorted(said for said, _ in results) == ["False 0"] * 5 + ["True 1"]


@requirement("G14")
def test_workspaces_have_leaders_of_their_own(tmp_path: Path) -> None:
    leaders = [LeaderLock(tmp_path, f"019c1f0e-{number}") for number in range(3)]
    assert [each.try_acquire() for each in leaders] == [True] * 3
    leaders[0].release()
    assert LeaderLock(tmp_path, "019c1f0e-0").try_acquire()
    assert not LeaderLock(tmp_path, "019c1f0e-1").try_acquire()


@requirement("G14")
def test_a_leader_whose_lock_file_was_removed_notices_that_it_leads_no_more(tmp_path: Path) -> None:
    old = LeaderLock(tmp_path, "w")
    assert old.try_acquire()
    (path,) = tmp_path.iterdir()
    path.unlink()
    assert not old.is_held()

    new = LeaderLock(tmp_path, "w")
    assert new.try_acquire(at_least=old.fence)
    assert new.fence > old.fence and new.is_held() and not old.is_held()


@requirement("G14")
def test_whatever_stands_in_the_lock_file_the_fence_only_grows(tmp_path: Path) -> None:
    (tmp_path / ".mcp_leader_w").write_bytes(b"\xff\x00 nonsense")
    leader = LeaderLock(tmp_path, "w")
    assert leader.try_acquire(at_least=41)
    assert leader.fence == 42
