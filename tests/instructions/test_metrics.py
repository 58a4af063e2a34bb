"""What became of messages is counted by version, runtime and template, and told to owners and to Prometheus."""

from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from molecule_core.common.metrics import InstructionMeter
from molecule_core.instructions.builtin_templates import BUILT_IN_VERSION, iter_builtin_templates
from molecule_core.instructions.canary_statistics import METRIC_RUNTIMES
from molecule_core.instructions.catalogue import TemplateCatalogue
from molecule_core.instructions.rules import CLAUDE_CODE_TEMPLATE
from molecule_core.messages.template_outcomes import CANARY_TIMER, CanaryMonitor
from molecule_core.store.database import WriteSet
from molecule_core.store.timers import TIMERS_KEY, set_timer
from molecule_core.tools.host_config import HOSTS
from testing.engines import Engine
from testing.running_server import UNHURRIED, running
from testing.waits import eventually
from tests.api.http.test_metrics import one, scraped
from tests.instructions.template_trials import AS_GOOD, WORSE, TemplateTrial
from tests.instructions.untrained_agents import agent_of
from tests.requirements import requirement


@requirement("I16")
async def test_each_outcome_is_counted_once_by_version(trial: TemplateTrial) -> None:
    agent = await agent_of(trial.server)
    for number in range(3):
        await trial.ask(agent, number)
    agent.is_mute = True
    (outside,) = await trial.ask(agent, 3)
    draft = f"/workspaces/{agent.seat.id}/messages/{outside.row['id']}/draft"
    await agent.seat.api.post(draft, {"text": "printed"})
    await trial.ask(agent, 4)
    (declined,) = await trial.ask(agent, 5)
    handle = declined.instructions["reply_handle"]
    await agent.seat.api.post(f"/workspaces/{agent.seat.id}/decline", {"handle": handle, "reason": "not mine"})
    found = await trial.version(BUILT_IN_VERSION)
    counts = {name: found[name] for name in ("deliveries", "answered", "declined", "answered_outside", "overdue")}
    assert counts == {"deliveries": 6, "answered": 3, "declined": 1, "answered_outside": 1, "overdue": 0}
    assert (found["open"], found["rate"]) == (1, 0.8)
    assert found["tokens"] == sum(each.instructions["tokens"] for each in agent.heard)

    # The draft is sent by a person: that does not make the words any better.
    await trial.owner.post(f"{draft}/send", {})
    assert (await trial.version(BUILT_IN_VERSION))["answered_outside"] == 1

    async def passing() -> int:
        await trial.pass_time(agent)
        return int((await trial.version(BUILT_IN_VERSION))["overdue"])

    assert await eventually(passing, lambda count: count == 1)


@requirement("I16", "O4")
async def test_metrics_count_by_runtime_and_template_and_name_nothing_of_people(trial: TemplateTrial) -> None:
    agent, other = await agent_of(trial.server), await agent_of(trial.server, "Other", runtime="Hal 9000")
    for number in range(3):
        await trial.ask(agent, number)
    await trial.ask(other, 4)
    figures = await scraped(trial.server)
    theirs = {"runtime": "claude-code", "template": CLAUDE_CODE_TEMPLATE}
    assert one(figures, "molecule_instructions_total", **theirs, form="full") == 1
    assert one(figures, "molecule_instructions_total", **theirs, form="compact") == 2
    tokens = sum(each.instructions["tokens"] for each in agent.heard)
    assert one(figures, "molecule_instruction_tokens_total", **theirs) == tokens
    assert one(figures, "molecule_obligations_total", **theirs, outcome="answered") == 3
    unnamed = {"runtime": "other", "template": "generic-mcp-default"}
    assert one(figures, "molecule_obligations_total", **unnamed, outcome="answered") == 1
    assert "Hal" not in str(figures)


@requirement("I13", "O4")
async def test_a_template_that_fails_is_counted_and_the_message_goes_out(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    limits = msgspec.structs.replace(UNHURRIED, instruction_bytes=64)
    async with running(engine, place, tmp_path, limits=limits, push_instructions_enabled=True) as server:
        agent = await agent_of(server)
        await server.admin.send(agent.seat.id, "hello")
        (row,) = await agent.seat.api.get(f"/workspaces/{agent.seat.id}/activity", claim=60, include="instructions")
        assert "instructions" not in row
        figures = await scraped(server)
        assert one(figures, "molecule_instruction_failures_total", template=CLAUDE_CODE_TEMPLATE) >= 1
        assert set(figures["molecule_instructions_total"].values()) == {0}


@requirement("I13", "O4")
@pytest.mark.parametrize("how", ["unreadable", "nothing to choose", "a fault of ours", "nobody can be told"])
async def test_a_template_that_cannot_be_read_any_more_is_counted_once_and_stops_no_delivery(
    engine: Engine, place: str, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = UNHURRIED if how == "nothing to choose" else msgspec.structs.replace(UNHURRIED, template_nodes=8)
    async with running(engine, place, tmp_path, limits=limits, push_instructions_enabled=True) as server:
        renderer = server.server.instructions.renderer
        if how == "nothing to choose":
            monkeypatch.setattr(renderer, "_catalogue", TemplateCatalogue())
        elif how == "a fault of ours":
            monkeypatch.setattr(renderer, "static_key", lambda _seat, _choice: 1 // 0)
        elif how == "nobody can be told":
            monkeypatch.setattr(renderer, "on_failure", lambda *_told: 1 // 0)
        agent = await agent_of(server)
        await server.admin.send(agent.seat.id, "hello")
        (row,) = await agent.seat.api.get(f"/workspaces/{agent.seat.id}/activity", claim=60, include="instructions")
        assert "instructions" not in row
        assert renderer.failure_count == 1
        if how != "nobody can be told":
            assert one(await scraped(server), "molecule_instruction_failures_total", template=CLAUDE_CODE_TEMPLATE) == 1
        again = await agent.seat.api.get(f"/workspaces/{agent.seat.id}/activity", include="instructions")
        assert [each["id"] for each in again] == [row["id"]]


@requirement("O4")
def test_only_names_that_come_with_molecule_are_labels() -> None:
    meter = InstructionMeter(METRIC_RUNTIMES, [CLAUDE_CODE_TEMPLATE])
    meter.count_outcome("claude-code", CLAUDE_CODE_TEMPLATE, "answered")
    meter.count_outcome("mine", "workspace:0190", "overdue")
    meter.count_outcome("codex", None, "overdue")
    assert {labels for labels, count in meter.outcomes.items() if count} == {
        ("claude-code", CLAUDE_CODE_TEMPLATE, "answered"),
        ("other", "own", "overdue"),
        ("codex", "none", "overdue"),
    }
    assert {host.runtime for host in HOSTS} | {each.runtime for each in iter_builtin_templates(0)} <= {*METRIC_RUNTIMES}


# -- what a trial costs, and when --------------------------------------------------------------------------------------


class Owed(NamedTuple):
    """What is owed for a message."""

    org_id: str
    workspace_id: str
    template: str | None
    version: int | None


def measuring_of(trial: TemplateTrial) -> CanaryMonitor:
    return trial.server.server.messages.canary_monitor


@requirement("I16")
async def test_without_a_canary_an_outcome_asks_for_nothing(trial: TemplateTrial) -> None:
    agent, measuring = await agent_of(trial.server), measuring_of(trial)
    here = (trial.org_id, agent.seat.id)
    assert measuring.record_outcome(Owed(*here, CLAUDE_CODE_TEMPLATE, BUILT_IN_VERSION), "answered") == WriteSet(None)
    canary = await trial.save(AS_GOOD)
    await trial.share(canary, 10)
    for template, version in ((CLAUDE_CODE_TEMPLATE, BUILT_IN_VERSION), ("codex-default", canary), (None, None)):
        assert measuring.record_outcome(Owed(*here, template, version), "overdue") == WriteSet(None)
    written = measuring.record_outcome(Owed(*here, CLAUDE_CODE_TEMPLATE, canary), "overdue")
    assert written.writes == [set_timer(CANARY_TIMER, f"{trial.org_id}/{CLAUDE_CODE_TEMPLATE}", trial.clock.now())]
    assert written.notify == (TIMERS_KEY,)


@requirement("I16", "P1")
async def test_a_look_that_comes_twice_or_too_late_ends_nothing_twice(trial: TemplateTrial) -> None:
    agent = await agent_of(trial.server)
    await trial.share(await trial.save(WORSE), 50)
    key = f"{trial.org_id}/{CLAUDE_CODE_TEMPLATE}"
    for number in range(20):
        await trial.ask(agent, number)

    async def passing() -> int:
        await trial.pass_time(agent)
        await measuring_of(trial).evaluate_trial(key)
        await measuring_of(trial).evaluate_trial(key)
        return len(await trial.told("INSTRUCTION_TEMPLATE_ROLLED_BACK"))

    assert await eventually(passing, lambda count: count > 0) == 1
    await measuring_of(trial).evaluate_trial(key)
    await measuring_of(trial).evaluate_trial(f"{trial.org_id}/unheard-of")
    assert len(await trial.told("INSTRUCTION_TEMPLATE_ROLLED_BACK")) == 1
    due = await trial.server.server.store.rows("next_timers", {"count": 100})
    assert CANARY_TIMER not in {kind for kind, _, _ in due}
