"""Where SQLite's commits wait for the disk: on the event loop while that is quick, in a thread while it is slow."""

import itertools
import threading
from pathlib import Path

from molecule_core.store.sqlite.store import DiskLatency
from testing.clocks import FakeClock
from tests.store.instrumented_store import bench_on, note, write


def test_a_quick_disk_is_waited_for_on_the_loop() -> None:
    pace = DiskLatency()
    assert not pace.is_slow()
    for _ in range(100):
        pace.record_commit(0.002)
        assert not pace.is_slow()


def test_one_slow_commit_among_many_does_not_change_the_road() -> None:
    pace = DiskLatency()
    pace.record_commit(0.05)
    assert not pace.is_slow()


def test_a_slow_disk_is_left_to_a_thread_but_now_and_then_it_is_tried_again() -> None:
    pace = DiskLatency()
    while not pace.is_slow():
        pace.record_commit(0.03)
    roads = [pace.is_slow() for _ in range(200)]
    assert roads.count(True) > 190
    tries = [place for place, slow in enumerate(roads) if not slow]
    assert [later - earlier for earlier, later in itertools.pairwise(tries)] == [64, 64]


def test_a_disk_that_has_become_quick_again_gets_the_loop_back() -> None:
    pace = DiskLatency()
    for _ in range(50):
        pace.record_commit(0.03)
    tries = 0
    for _ in range(64 * 40):
        if not pace.is_slow():
            pace.record_commit(0.001)
            tries += 1
    assert tries > 1000
    assert not pace.is_slow()


async def test_commits_move_to_a_thread_when_the_disk_becomes_slow_and_back(tmp_path: Path) -> None:
    clock = FakeClock()
    threads: list[str] = []
    seconds = 0.0

    def hook() -> bool:
        threads.append(threading.current_thread().name)
        clock.at += round(seconds * 1_000_000)
        return False

    async with bench_on("sqlite", str(tmp_path / "molecule.db"), clock=clock) as bench:
        bench.store._write_connection.set_commit_hook(hook)
        for quick_or_slow in (0.001, 0.2, 0.001):
            seconds = quick_or_slow
            for number in range(1300 if quick_or_slow < 0.1 and len(threads) > 10 else 10):
                assert await bench.run(write(note(str(number)), answer=number)) == number
        here = threading.current_thread().name
        assert threads[:10] == [here] * 10
        assert threads[11:20] != [here] * 9
        assert all(name.startswith("molecule-disk") for name in threads[11:20])
        assert threads[-1] == here
        assert len(await bench.notes()) == 1300
