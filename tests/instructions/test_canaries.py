"""A new version of a template gets a share of the messages; what its agents do with it decides how long."""

import sys
from pathlib import Path

import msgspec
import pytest

from molecule_core.instructions import builtin_templates
from molecule_core.instructions.rules import CLAUDE_CODE_TEMPLATE
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.running_server import UNHURRIED, running
from testing.waits import eventually, refused
from tests.instructions.template_trials import AS_GOOD, WORSE, TemplateTrial
from tests.instructions.untrained_agents import Agent, agent_of
from tests.requirements import requirement

_TENTH, _MOST = 10, 50


async def until_rolled_back(trial: TemplateTrial, agent: Agent) -> int:
    """Messages one after the other; after how many the canary was ended."""
    for number in range(1, _MOST + 1):
        await trial.ask(agent, number)
        await trial.pass_time(agent)
        if (await trial.figures())["trial"] is None:
            return number

    async def passing() -> bool:
        await trial.pass_time(agent)
        return (await trial.figures())["trial"] is None

    assert await eventually(passing, bool)
    return _MOST


@requirement("I16")
async def test_a_worse_template_on_a_tenth_is_rolled_back_by_itself_within_fifty_messages(trial: TemplateTrial) -> None:
    agent = await agent_of(trial.server)
    worse = await trial.save(WORSE)
    await trial.share(worse, _TENTH)
    count = await until_rolled_back(trial, agent)
    assert count <= _MOST
    sys.stdout.write(f"\nrolled back after {count} messages\n")

    (told,) = await trial.told("INSTRUCTION_TEMPLATE_ROLLED_BACK")
    assert (told["template_id"], told["version"], told["back_to"]) == (
        CLAUDE_CODE_TEMPLATE,
        worse,
        builtin_templates.BUILT_IN_VERSION,
    )
    assert (told["canary_rate"], told["base_rate"]) == (0.0, 1.0)
    assert told["canary_outcomes"] >= 3
    assert told["base_outcomes"] >= 12
    assert {each.told_by for each in agent.heard} == {
        f"{CLAUDE_CODE_TEMPLATE}@{builtin_templates.BUILT_IN_VERSION}",
        f"{CLAUDE_CODE_TEMPLATE}@{worse}",
    }
    assert len(agent.stdout) >= 3

    # From here on every message is told with the version in force again, and answered.
    before = len(agent.stdout)
    heard = [each for number in range(20) for each in await trial.ask(agent, number)]
    assert {each.told_by for each in heard} == {f"{CLAUDE_CODE_TEMPLATE}@{builtin_templates.BUILT_IN_VERSION}"}
    assert len(agent.stdout) == before


@requirement("I16")
async def test_a_template_that_is_as_good_keeps_its_share(trial: TemplateTrial) -> None:
    agent = await agent_of(trial.server)
    good = await trial.save(AS_GOOD)
    await trial.share(good, 50)
    for number in range(100):
        await trial.ask(agent, number)
        await trial.pass_time(agent)
    figures = await trial.figures()
    assert figures["trial"]["canary"]["rate"] == figures["trial"]["base"]["rate"] == 1.0
    assert 48 <= figures["trial"]["canary"]["good"] <= 52
    assert await trial.told("INSTRUCTION_TEMPLATE_ROLLED_BACK") == []
    assert agent.stdout == []


@requirement("I16")
async def test_where_the_version_in_force_is_missed_as_often_nothing_is_rolled_back(trial: TemplateTrial) -> None:
    """An agent that is mute for a while is no fault of the words."""
    agent = await agent_of(trial.server)
    await trial.share(await trial.save(AS_GOOD), _TENTH)
    for number in range(40):
        agent.is_mute = number % 3 != 0
        await trial.ask(agent, number)
        await trial.pass_time(agent, 300)
    figures = await eventually(trial.figures, lambda found: found["trial"]["canary"]["missed"] >= 1)
    assert figures["trial"]["base"]["missed"] >= 10
    assert await trial.told("INSTRUCTION_TEMPLATE_ROLLED_BACK") == []


@requirement("I16", "O2")
async def test_fewer_outcomes_than_the_limit_roll_nothing_back(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    limits = msgspec.structs.replace(UNHURRIED, canary_outcomes=17)
    async with running(engine, place, tmp_path, clock=clock, limits=limits, push_instructions_enabled=True) as server:
        trial = TemplateTrial(server, await server.person("owner"), clock)
        agent = await agent_of(server)
        await trial.share(await trial.save(WORSE), 50)
        for number in range(16):
            await trial.ask(agent, number)
            await trial.pass_time(agent, 300)
        figures = await eventually(trial.figures, lambda found: found["trial"]["canary"]["missed"] >= 6)
        assert (figures["trial"]["canary"]["good"], figures["trial"]["base"]["missed"]) == (0, 0)
        assert figures["trial"]["needs"] is None
        assert figures["trial"]["chance"] < 0.001
        assert await trial.told("INSTRUCTION_TEMPLATE_ROLLED_BACK") == []


# -- the share ---------------------------------------------------------------------------------------------------------


@requirement("I16")
async def test_a_share_can_be_changed_ended_and_become_the_whole(trial: TemplateTrial) -> None:
    good = await trial.save(AS_GOOD)
    begun = await trial.share(good, 10)
    assert (begun["version"], begun["canary"], begun["percent"]) == (builtin_templates.BUILT_IN_VERSION, good, 10)
    await trial.clock.advance(1)
    assert await trial.share(good, 10) == begun
    more = await trial.share(good, 25)
    assert (more["canary"], more["percent"]) == (good, 25)
    assert more["since"] > begun["since"]
    ended = await trial.share(good, 0)
    assert (ended["version"], ended["canary"], ended["percent"]) == (builtin_templates.BUILT_IN_VERSION, None, 0)
    assert await trial.share(good, 0) == ended
    whole = await trial.share(good, 100)
    assert (whole["version"], whole["canary"]) == (good, None)
    told = await trial.told("INSTRUCTION_TEMPLATE_SAVED")
    assert [(each["version"], each.get("canary"), each.get("percent", 0)) for each in told][-4:] == [
        (builtin_templates.BUILT_IN_VERSION, good, 10),
        (builtin_templates.BUILT_IN_VERSION, good, 25),
        (builtin_templates.BUILT_IN_VERSION, None, 0),
        (good, None, 0),
    ]


@requirement("I16")
async def test_what_is_no_share_is_refused(trial: TemplateTrial) -> None:
    good = await trial.save(AS_GOOD)
    assert (await refused(trial.share(good + 1, 10))).status == 404
    assert (await refused(trial.share(builtin_templates.BUILT_IN_VERSION, 10))).status == 422
    assert (await refused(trial.share(good, 101))).status == 422
    assert (await refused(trial.share(good, -1))).status == 422
    unknown = trial.path.replace(CLAUDE_CODE_TEMPLATE, "unheard-of")
    assert (await refused(trial.owner.get(f"{unknown}/figures"))).status == 404
    assert (await refused(trial.owner.post(f"{unknown}/canary", {"version": 1, "percent": 10}))).status == 404


@requirement("I16")
@pytest.mark.parametrize("role", ["operator", "viewer"])
async def test_only_owners_see_figures_and_share(trial: TemplateTrial, role: str) -> None:
    other = await trial.server.person(role)
    assert (await refused(other.get(f"{trial.path}/figures"))).status == 403
    assert (await refused(other.post(f"{trial.path}/canary", {"version": 1, "percent": 0}))).status == 403
    seat = await trial.server.seat("Agent")
    assert (await refused(seat.api.get(f"{trial.path}/figures"))).status == 403
