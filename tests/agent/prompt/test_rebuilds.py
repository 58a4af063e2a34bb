"""What a prompt does about faults: it is asked again, told once, and refused for good only until something changes."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from molecule_core.agent.prompt.home import read_home
from molecule_core.agent.prompt.loader import PromptLoader, PromptServerError
from molecule_core.agent.prompt.rebuilder import PromptRebuilder, PromptUpdate
from molecule_core.client.api import ApiClient, ApiError
from molecule_core.common.clock import Clock, SystemClock
from molecule_core.wire.schemas.prompts import BuildTrigger, PromptBuild
from testing.clocks import FakeClock, SeededRandomness, settle
from testing.running_server import Running
from testing.waits import IN_PROCESS_SECONDS, bounded
from tests.requirements import requirement

OPS = "0197f3a2-7c1e-7b10-8c3a-2f6d5a9b1e77"
ROWS: dict[str, Any] = {"/workspaces/" + OPS: {"id": OPS, "parent_id": None}, f"/registry/{OPS}/peers": []}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home without a mistake in it."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "system-prompt.md").write_text("You are.")
    return folder


class Server(ApiClient):
    """Answers what a test says, and notes what it is asked."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:9", "token")
        self.asked: list[str] = []
        self.faults: dict[str, int] = {}

    async def call(self, method: str, path: str, **more: Any) -> Any:
        self.asked.append(f"{method} {path}")
        if fault := self.faults.get(path):
            raise ApiError(fault, {"error": "not now"})
        return ROWS.get(path, {})

    def times(self, ending: str) -> int:
        """How often something was asked."""
        return sum(each.endswith(ending) for each in self.asked)


class Told:
    """What a rebuilder has told."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[PromptUpdate] = asyncio.Queue()
        self.warned: list[str] = []

    async def until(self, wanted: Callable[[PromptUpdate], bool]) -> PromptUpdate:
        """The next that is as wanted."""
        while not wanted(new := await bounded(self.queue.get())):
            pass
        return new


@asynccontextmanager
async def rebuilt(
    server: Server,
    home: Path,
    clock: Clock,
    events: Callable[[], AsyncIterator[dict[str, Any]]] | None = None,
    *,
    tell: Callable[[PromptUpdate], Awaitable[None]] | None = None,
) -> AsyncIterator[Told]:
    """A rebuilder that runs; nothing happens to others, unless `events` says so."""
    told = Told()

    async def silence() -> AsyncIterator[dict[str, Any]]:
        await asyncio.get_running_loop().create_future()
        yield {}

    rebuilder = PromptRebuilder(
        PromptLoader(server, OPS, clock=clock),
        home,
        tell or told.queue.put,
        events=events or silence,
        on_warning=told.warned.append,
        clock=clock,
        randomness=SeededRandomness(),
    )
    running = asyncio.create_task(rebuilder.run())
    try:
        yield told
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def pass_until(clock: FakeClock, reached: Callable[[], bool], most: int = 200) -> float:
    """Lets time go by until something is so; how much went by. Fails if it never is."""
    began = clock.monotonic()
    for _ in range(most):
        if reached():
            return clock.monotonic() - began
        await clock.advance(1.0)
    raise AssertionError("it never came")


@requirement("SP3", "SP7")
async def test_what_the_server_did_not_say_is_asked_again_though_nothing_happens(home: Path) -> None:
    server, clock = Server(), FakeClock()
    server.faults[f"/registry/{OPS}/peers"] = 503
    async with rebuilt(server, home, clock) as told:
        first = await told.until(lambda _new: True)
        assert "not known at this moment" in first.prompt.text and len(first.prompt.warnings) == 1
        await pass_until(clock, lambda: server.times("/peers") >= 5)
        server.faults.clear()
        await pass_until(clock, lambda: not told.queue.empty())
        new = told.queue.get_nowait()
        assert "You have no peers" in new.prompt.text and new.prompt.warnings == ()
        assert new.trigger == BuildTrigger("gap", "request repeated")
        asked = server.times("/peers")
        await clock.advance(600)
        assert server.times("/peers") == asked


@requirement("SP4", "SP7")
async def test_files_that_could_not_be_shared_are_shared_later_though_nothing_happens(home: Path) -> None:
    (home / "plan.md").write_text("The plan")
    (home / "config.yaml").write_text("shared_context: [plan.md]\n")
    server, clock = Server(), FakeClock()
    server.faults[f"/workspaces/{OPS}/shared-context"] = 500
    async with rebuilt(server, home, clock) as told:
        first = await told.until(lambda _new: True)
        assert "could not be shared" in first.prompt.warnings[0] and "could not be shared" in told.warned[0]
        await pass_until(clock, lambda: server.times("/shared-context") >= 3)
        server.faults.clear()
        await pass_until(clock, lambda: not told.queue.empty())
        assert told.queue.get_nowait().prompt.warnings == ()
        asked = server.times("/shared-context")
        await clock.advance(600)
        assert server.times("/shared-context") == asked


@requirement("SP3", "SP7")
async def test_what_happens_meanwhile_neither_puts_off_nor_hastens_what_is_asked_again(home: Path) -> None:
    (home / "plan.md").write_text("The plan")
    (home / "config.yaml").write_text("shared_context: [plan.md]\n")
    server, clock, heard = Server(), FakeClock(), asyncio.Queue[dict[str, Any]]()
    server.faults = {f"/registry/{OPS}/peers": 503, f"/workspaces/{OPS}/shared-context": 503}

    async def events() -> AsyncIterator[dict[str, Any]]:
        while True:
            yield await heard.get()

    async with rebuilt(server, home, clock, events) as told:
        await told.until(lambda _new: True)
        own = {"event": "WORKSPACE_ONLINE", "workspace_id": OPS, "payload": {}}  # of itself a prompt says nothing
        for _ in range(120):
            heard.put_nowait(own)
            await clock.advance(0.5)
    # Within a minute: after 1 s, and then after twice as long each time.
    assert 5 <= server.times("/peers") <= 9
    assert 5 <= server.times("/shared-context") <= 9


@requirement("SP7")
@pytest.mark.parametrize(("final", "times"), [(False, 3), (True, 1)])
async def test_a_prompt_that_the_server_was_not_told_is_told_again(home: Path, final: bool, times: int) -> None:
    clock, told = FakeClock(), list[PromptUpdate]()

    async def tell(new: PromptUpdate) -> None:
        told.append(new)
        if len(told) < 3:
            raise PromptServerError("not now", final=final)

    async with rebuilt(Server(), home, clock, tell=tell) as seen:
        await pass_until(clock, lambda: len(told) >= times)
        await clock.advance(600)
        assert len(told) == times and all(each is told[0] for each in told)
        assert len(seen.warned) == min(times, 2)


@requirement("SP4", "SP7")
async def test_files_that_are_refused_for_good_are_not_sent_again_until_they_change(home: Path) -> None:
    (home / "plan.md").write_text("The plan")
    (home / "config.yaml").write_text("shared_context: [plan.md]\n")
    server, heard = Server(), asyncio.Queue[dict[str, Any]]()
    server.faults[f"/workspaces/{OPS}/shared-context"] = 422

    async def events() -> AsyncIterator[dict[str, Any]]:
        while True:
            yield await heard.get()

    async with rebuilt(server, home, SystemClock(), events) as told:
        first = await told.until(lambda _new: True)
        assert "could not be shared" in first.prompt.warnings[0]
        peers = server.times("/peers")
        heard.put_nowait({"event": "WORKSPACE_MOVED", "workspace_id": OPS})
        async with asyncio.timeout(IN_PROCESS_SECONDS):
            while server.times("/peers") == peers:
                await settle()
        assert server.times("/shared-context") == 1
        (home / "system-prompt.md").write_text("You are Ops.")
        await told.until(lambda new: "You are Ops." in new.prompt.text)
        assert server.times("/shared-context") == 1
        server.faults.clear()
        (home / "plan.md").write_text("A shorter plan")
        assert (await told.until(lambda new: not new.prompt.warnings)).prompt.text.startswith("You are Ops.")
        assert server.times("/shared-context") == 2


@requirement("SP2", "SP7")
async def test_a_new_warning_is_told_though_the_text_is_the_same(home: Path) -> None:
    async with rebuilt(Server(), home, SystemClock()) as told:
        first = await told.until(lambda _new: True)
        (home / "config.yaml").write_text("shared_context: [not-there.md]\n")
        new = await told.until(lambda new: bool(new.prompt.warnings))
        assert "not-there.md" in new.prompt.warnings[0]
        assert new.prompt.hash == first.prompt.hash and new.diff == []


@requirement("SP7")
async def test_another_folder_in_the_place_of_one_is_noticed(home: Path) -> None:
    for name, text in (("old", "You are old."), ("new", "You are new.")):
        (home / name).mkdir(parents=True)
        (home / name / "me.md").write_text(text)
    (home / "config.yaml").write_text("prompt_files: [parts/me.md]\n")
    (home / "old").rename(home / "parts")
    async with rebuilt(Server(), home, SystemClock()) as told:
        await told.until(lambda new: "You are old." in new.prompt.text)
        (home / "parts").rename(home / "old")
        (home / "new").rename(home / "parts")
        assert (await told.until(lambda new: "You are new." in new.prompt.text)).trigger.kind == "file"


@requirement("SP7")
async def test_a_folder_that_could_not_be_watched_is_tried_again_and_said_so(tmp_path: Path) -> None:
    home, clock = tmp_path / "later", FakeClock()
    async with rebuilt(Server(), home, clock) as told:
        await pass_until(clock, lambda: not told.queue.empty())
        first = await told.until(lambda new: bool(new.prompt.warnings))
        assert "cannot be detected" in first.prompt.warnings[-1]
        home.mkdir()
        (home / "system-prompt.md").write_text("You are late.")
        await pass_until(clock, lambda: not told.queue.empty())
        new = told.queue.get_nowait()
        assert "You are late." in new.prompt.text and new.prompt.warnings == ()
        assert len(told.warned) == 1


@requirement("SP7")
async def test_a_server_that_greets_and_leaves_is_asked_less_and_less_often(home: Path) -> None:
    clock, opened = FakeClock(), list[float]()

    async def events() -> AsyncIterator[dict[str, Any]]:
        opened.append(clock.monotonic())
        yield {"type": "hello"}

    async with rebuilt(Server(), home, clock, events) as told:
        await told.until(lambda _new: True)
        await pass_until(clock, lambda: len(opened) > 8, most=600)
    waits = [after - before for before, after in itertools.pairwise(opened)]
    assert waits[-1] >= 30 > waits[2]


@requirement("SP4")
@pytest.mark.parametrize("path", ["config.yaml", "me.md", "CONFIG.yaml", "system-prompt.md"])
def test_an_agents_prompt_and_configuration_are_never_shared(tmp_path: Path, path: str) -> None:
    for name in {path, "me.md", "plan.md"}:
        (tmp_path / name).write_text("text")
    (tmp_path / "config.yaml").write_text(f"prompt_files: [me.md]\nshared_context: [plan.md, {path}]\n")
    home = read_home(tmp_path)
    assert [each.path for each in home.shared or ()] == ["plan.md"]
    assert path in home.warnings[0] and "are not shared" in home.warnings[0]


@requirement("SP2")
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
async def test_a_prompt_told_again_with_other_warnings_is_another_one(server: Running) -> None:
    ops = await server.seat("Ops")
    seen = []
    for warnings in ([], [], ["a file is missing"], ["a file is missing"], []):
        build = PromptBuild(sections=[], trigger=BuildTrigger("start"), hash="h", tokens=0, budget=1, warnings=warnings)
        await PromptLoader(ops.api, ops.id, clock=SystemClock()).report_prompt(build)
        told = (await ops.api.get(f"/workspaces/{ops.id}/prompt"))["build"]
        seen.append((told["revision"], told["warnings"]))
    assert [revision for revision, _ in seen] == [1, 1, 2, 2, 3]
    assert seen[2][1] == ["a file is missing"]
