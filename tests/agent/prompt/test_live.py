"""A prompt over a real server: what it is made of, what a parent that fails costs, and what makes a new one."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from molecule_core.agent.prompt.assembly import Prompt, assemble_prompt
from molecule_core.agent.prompt.home import Home, HomeFile
from molecule_core.agent.prompt.loader import PromptLoader
from molecule_core.agent.prompt.rebuilder import PromptRebuilder, PromptUpdate
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common.clock import SystemClock
from testing.clocks import SeededRandomness
from testing.processes import MOLECULE, environment, started
from testing.running_server import Running, Seat
from testing.waits import IN_PROCESS_SECONDS, PROCESS_START_SECONDS, bounded, eventually
from tests.requirements import requirement

pytestmark = pytest.mark.parametrize("engine", ["sqlite"])


class Asked(ApiClient):
    """A client that notes what it asks for, and whose questions about some paths end as a test wants."""

    def __init__(self, seat: Seat, server: Running) -> None:
        super().__init__(server.url, seat.token)
        self.paths: list[str] = []
        self.end: Exception | None = None

    async def call(self, method: str, path: str, **more: Any) -> Any:
        self.paths.append(f"{method} {path}")
        if path.endswith("/shared-context") and self.end is not None:
            if isinstance(self.end, TimeoutError):
                await asyncio.get_running_loop().create_future()
            raise self.end
        return await super().call(method, path, **more)


def gatherer(api: ApiClient, seat: Seat, seconds: float = IN_PROCESS_SECONDS) -> PromptLoader:
    """Asks as a seat."""
    return PromptLoader(api, seat.id, clock=SystemClock(), seconds=seconds)


async def built(api: ApiClient, seat: Seat, home: Home, seconds: float = IN_PROCESS_SECONDS) -> Prompt:
    """The prompt of a seat as its own client gathers it."""
    async with api:
        return assemble_prompt(await gatherer(api, seat, seconds).load_inputs(home))


async def share(seat: Seat, path: str, text: str) -> None:
    """A workspace shares one file."""
    await seat.api.call("PUT", f"/workspaces/{seat.id}/shared-context", body=[{"path": path, "content": text}])


async def card(seat: Seat, description: str) -> None:
    """An agent says what it is for."""
    body = {"id": seat.id, "delivery_mode": "poll", "agent_card": {"name": seat.name, "description": description}}
    await seat.api.post("/registry/register", body)


@requirement("SP3", "SP4")
async def test_a_child_has_its_parents_files_and_not_its_grandparents_and_a_root_asks_for_none(server: Running) -> None:
    top = await server.seat("Top")
    lead = await server.seat("Lead", parent_id=top.id)
    ops = await server.seat("Ops", parent_id=lead.id)
    await share(top, "top.md", "of the top")
    await share(lead, "lead.md", "of the lead")
    await card(ops, "Keeps things going")
    home = Home(prompts=(HomeFile("system-prompt.md", "You are."),))
    for seat, own, other in ((ops, "of the lead", "of the top"), (lead, "of the top", "of the lead")):
        prompt = await built(Asked(seat, server), seat, home)
        assert own in prompt.text and other not in prompt.text and not prompt.warnings
        assert ("Keeps things going" in prompt.text, "## Your team" in prompt.text) == (seat is lead, seat is lead)
    api = Asked(top, server)
    prompt = await built(api, top, home)
    assert len(api.paths) == 2 and not [each for each in api.paths if "shared" in each]
    assert "## Parent Context" not in prompt.text


@requirement("SP3")
@pytest.mark.parametrize(
    ("end", "said"),
    [
        (NoAnswerError("refused"), "cannot be reached"),
        (ApiError(401, {"error": "no", "code": "invalid_credential"}), "401"),
        (ApiError(500, {"error": "a mistake"}), "500"),
        (TimeoutError(), "no answer within"),
    ],
)
async def test_a_parent_that_does_not_answer_costs_its_section_and_a_warning(
    server: Running, end: Exception, said: str
) -> None:
    lead = await server.seat("Lead")
    ops = await server.seat("Ops", parent_id=lead.id)
    await share(lead, "a.md", "of the lead")
    api = Asked(ops, server)
    api.end = end
    prompt = await built(api, ops, Home(), 0.05 if isinstance(end, TimeoutError) else IN_PROCESS_SECONDS)
    assert "## Parent Context" not in prompt.text and "Lead" in prompt.text
    assert len(prompt.warnings) == 1 and said in prompt.warnings[0] and "parent" in prompt.warnings[0]


@requirement("SP3")
async def test_a_server_that_is_gone_or_refuses_leaves_the_agents_own_files(server: Running) -> None:
    ops = await server.seat("Ops")
    home = Home(prompts=(HomeFile("system-prompt.md", "You are."),))
    for url, token in (("http://127.0.0.1:9", ops.token), (server.url, "nobody")):
        prompt = await built(ApiClient(url, token), ops, home)
        assert prompt.text.startswith("You are.") and "not known at this moment" in prompt.text
        assert len(prompt.warnings) == 2 and ops.token not in str(prompt.warnings)


# -- rebuilds ----------------------------------------------------------------------------------------------------------


class Watched:
    """What a rebuilder has told."""

    def __init__(self, gatherer: PromptLoader) -> None:
        self.gatherer = gatherer
        self.told: asyncio.Queue[PromptUpdate] = asyncio.Queue()
        self.warnings: list[str] = []

    async def take(self, new: PromptUpdate) -> None:
        """Tells the server, as `molecule prompt watch` does."""
        await self.gatherer.report_prompt(new.prompt.build(new.trigger))
        self.told.put_nowait(new)

    async def until(self, text: str, there: bool = True) -> PromptUpdate:
        """The next prompt that has a text, or has it no more."""
        while (text in (new := await bounded(self.told.get())).prompt.text) != there:
            pass
        return new


@asynccontextmanager
async def watched(seat: Seat, home: Path, *, listened: asyncio.Event | None = None) -> AsyncIterator[Watched]:
    """A rebuilder that runs. `listened` is set with the greeting of its event stream."""
    made = Watched(gatherer(seat.api, seat))

    async def events() -> AsyncIterator[dict[str, Any]]:
        async for frame in seat.api.events():
            yield frame
            if listened is not None:
                listened.set()

    rebuilder = PromptRebuilder(
        made.gatherer,
        home,
        made.take,
        events=events,
        on_warning=made.warnings.append,
        clock=SystemClock(),
        randomness=SeededRandomness(),
    )
    running = asyncio.create_task(rebuilder.run())
    try:
        yield made
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@requirement("SP7", "SP4")
async def test_files_and_events_of_others_change_the_next_prompt_and_people_see_what_differs(
    server: Running, tmp_path: Path
) -> None:
    lead, person = await server.seat("Lead"), await server.person("viewer")
    ops, peer = await server.seat("Ops", parent_id=lead.id), await server.seat("Peer", parent_id=lead.id)
    await card(peer, "Draws maps")
    (tmp_path / "system-prompt.md").write_text("You are Ops.")
    heard = asyncio.Event()
    async with watched(ops, tmp_path, listened=heard) as now:
        first = await now.until("You are Ops.")
        assert (first.trigger.kind, first.diff) == ("start", [])
        await bounded(heard.wait())

        (tmp_path / "system-prompt.md").write_text("You are the best Ops.")
        new = await now.until("the best Ops")
        assert (new.trigger.kind, new.trigger.detail) == ("file", "system-prompt.md")
        assert [(each.title, [x.text for x in each.lines]) for each in new.diff] == [
            ("system-prompt.md", ["You are Ops.", "You are the best Ops."])
        ]

        await card(peer, "Paints pictures")
        new = await now.until("Paints pictures")
        assert new.trigger.detail == f"AGENT_CARD_UPDATED {peer.id}" and "Draws maps" not in new.prompt.text
        assert "Draws maps" in first.prompt.text  # the turn that began with it keeps it
        await server.admin.post(f"/workspaces/{peer.id}/pause")
        await now.until(f'<peer id="{peer.id}" status="paused">')

        await share(lead, "plan.md", "First the roof")
        assert (await now.until("First the roof")).trigger.detail.startswith("SHARED_CONTEXT_UPDATED")
        await server.admin.call("DELETE", f"/workspaces/{peer.id}", query={"confirm": "true"})
        await now.until("Paints pictures", there=False)
        await server.admin.call("PATCH", f"/workspaces/{ops.id}", body={"parent_id": None})
        await now.until("First the roof", there=False)

        seen = await person.get(f"/workspaces/{ops.id}/prompt")
        assert "First the roof" not in str(seen["build"]) and "First the roof" in str(seen["previous"])
        assert ("plan.md", "removed") in [(each["title"], each["change"]) for each in seen["diff"]]


@requirement("SP7", "SP5")
async def test_a_new_skill_and_a_new_configuration_make_a_new_prompt_and_share_new_files(
    server: Running, tmp_path: Path
) -> None:
    ops = await server.seat("Ops")
    (tmp_path / "skills").mkdir()
    (tmp_path / "plan.md").write_text("The plan")
    async with watched(ops, tmp_path) as now:
        await now.until("## Available workspaces")
        (tmp_path / "skills" / "cook").mkdir()
        (tmp_path / "skills" / "cook" / "SKILL.md").write_text("---\nname: cook\ndescription: x\n---\nBoil it.")
        assert (await now.until("Boil it.")).trigger.kind == "file"
        (tmp_path / "config.yaml").write_text("skills: []\nshared_context: [plan.md]\n")
        await now.until("Boil it.", there=False)
    shared = await ops.api.get(f"/workspaces/{ops.id}/shared-context")
    assert [(each["path"], each["content"]) for each in shared["files"]] == [("plan.md", "The plan")]


@requirement("SP7")
async def test_a_stream_that_breaks_is_opened_again_and_what_was_missed_is_in_the_prompt(
    server: Running, tmp_path: Path
) -> None:
    ops = await server.seat("Ops")
    async with watched(ops, tmp_path) as now:
        await now.until("You have no peers")
        await server.server.live_hub.close()
        peer = await server.seat("Newcomer")
        new = await now.until(peer.id)
        assert new.trigger.kind in ("reconnect", "event", "gap")


@requirement("SP7", "SP1")
async def test_a_person_at_a_terminal_shows_compares_and_watches(server: Running, tmp_path: Path) -> None:
    ops = await server.seat("Ops")
    home = tmp_path / "home"
    home.mkdir()
    (home / "system-prompt.md").write_text("You are Ops.")
    named = {"WORKSPACE_ID": ops.id, "MOLECULE_WORKSPACE_TOKEN": ops.token, "PLATFORM_URL": server.url}
    env = {**environment(tmp_path, 1), **named}

    async def said(*args: str) -> tuple[int, str, str]:
        async with started(MOLECULE, "prompt", *args, "--home", str(home), env=env) as process:
            code = await process.ended()
            return code, (await process.output()).strip(), process.said.strip()

    code, out, err = await said("show", "--report")
    assert (code, err) == (0, "") and out.startswith("You are Ops.")
    told = (await ops.api.get(f"/workspaces/{ops.id}/prompt"))["build"]
    assert (told["trigger"], told["revision"]) == ({"kind": "command", "detail": "show"}, 1)
    assert (await said("diff"))[:2] == (0, "no changes")
    (home / "system-prompt.md").write_text("You are the Ops.")
    assert (await said("diff"))[1].splitlines() == [
        "@ 1 system-prompt.md: changed",
        "- You are Ops.",
        "+ You are the Ops.",
    ]
    shown = json.loads((await said("show", "--offline", "--json"))[1])
    assert [each["kind"] for each in shown["sections"]] == ["prompt", "tools", "peers", "failures"]
    assert (await said("show", "--offline", "--report"))[0] == 2
    async with started(MOLECULE, "prompt", "watch", "--home", str(home), env=env) as process:
        path = f"/workspaces/{ops.id}/prompt"
        await eventually(
            lambda: ops.api.get(path), lambda seen: seen["build"]["trigger"]["kind"] == "start", PROCESS_START_SECONDS
        )
        (home / "system-prompt.md").write_text("You watch.")
        seen = await eventually(lambda: ops.api.get(path), lambda seen: "You watch." in str(seen["build"]))
        assert seen["build"]["trigger"] == {"kind": "file", "detail": "system-prompt.md"}
        assert process.said == ""


@requirement("SP3")
async def test_a_parent_in_the_environment_that_is_another_one_is_reported_and_not_used(server: Running) -> None:
    lead, other = await server.seat("Lead"), await server.seat("Other")
    ops = await server.seat("Ops", parent_id=lead.id)
    await share(lead, "lead.md", "of the lead")
    home = Home(prompts=(HomeFile("system-prompt.md", "You are."),))
    for expected, warned in (("", False), (lead.id, False), (other.id, True)):
        async with server.api(ops.token) as api:
            loader = PromptLoader(api, ops.id, clock=SystemClock(), expected_parent=expected)
            inputs = await loader.load_inputs(home)
        assert "of the lead" in assemble_prompt(inputs).text
        assert [f"PARENT_ID names {other.id}, but the server says that the parent is {lead.id}, which is used"] * (
            warned
        ) == list(inputs.warnings)
