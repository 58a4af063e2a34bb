"""A new version of a template gets a share of the messages; what its agents do with it decides how long."""

import sys
from pathlib import Path

import msgspec
import pytest

from molecule_core.instructions import builtin_templates
from molecule_core.instructions.rules import CLAUDE_CODE_TEMPLATE
from tests.clocks import FakeClock
from tests.engines import Engine
from tests.journeys.patience import eventually, refused
from tests.measuring.agents import Agent, agent_of
from tests.measuring.trials import AS_GOOD, WORSE, House
from tests.requirements import requirement
from tests.running import UNHURRIED, running

_TENTH, _MOST = 10, 50


async def until_rolled_back(house: House, agent: Agent) -> int:
    """Messages one after the other; after how many the canary was ended."""
    for number in range(1, _MOST + 1):
        await house.ask(agent, number)
        await house.pass_time(agent)
        if (await house.figures())["trial"] is None:
            return number

    async def passing() -> bool:
        await house.pass_time(agent)
        return (await house.figures())["trial"] is None

    assert await eventually(passing, bool)
    return _MOST


@requirement("I16")
async def test_a_worse_template_on_a_tenth_is_rolled_back_by_itself_within_fifty_messages(house: House) -> None:
    agent = await agent_of(house.server)
    worse = await house.save(WORSE)
    await house.share(worse, _TENTH)
    count = await until_rolled_back(house, agent)
    assert count <= _MOST
    sys.stdout.write(f"\nrolled back after {count} messages\n")

    (told,) = await house.told("INSTRUCTION_TEMPLATE_ROLLED_BACK")
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
    heard = [each for number in range(20) for each in await house.ask(agent, number)]
    assert {each.told_by for each in heard} == {f"{CLAUDE_CODE_TEMPLATE}@{builtin_templates.BUILT_IN_VERSION}"}
    assert len(agent.stdout) == before


@requirement("I16")
async def test_a_template_that_is_as_good_keeps_its_share(house: House) -> None:
    agent = await agent_of(house.server)
    good = await house.save(AS_GOOD)
    await house.share(good, 50)
    for number in range(100):
        await house.ask(agent, number)
        await house.pass_time(agent)
    figures = await house.figures()
    assert figures["trial"]["canary"]["rate"] == figures["trial"]["base"]["rate"] == 1.0
    assert 48 <= figures["trial"]["canary"]["good"] <= 52
    assert await house.told("INSTRUCTION_TEMPLATE_ROLLED_BACK") == []
    assert agent.stdout == []


@requirement("I16")
async def test_where_the_version_in_force_is_missed_as_often_nothing_is_rolled_back(house: House) -> None:
    """An agent that is mute for a while is no fault of the words."""
    agent = await agent_of(house.server)
    await house.share(await house.save(AS_GOOD), _TENTH)
    for number in range(40):
        agent.is_mute = number % 3 != 0
        await house.ask(agent, number)
        await house.pass_time(agent, 300)
    figures = await eventually(house.figures, lambda found: found["trial"]["canary"]["missed"] >= 1)
    assert figures["trial"]["base"]["missed"] >= 10
    assert await house.told("INSTRUCTION_TEMPLATE_ROLLED_BACK") == []


@requirement("I16", "O2")
async def test_fewer_outcomes_than_the_limit_roll_nothing_back(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    limits = msgspec.structs.replace(UNHURRIED, canary_outcomes=17)
    async with running(engine, place, tmp_path, clock=clock, limits=limits, push_instructions_enabled=True) as server:
        house = House(server, await server.person("owner"), clock)
        agent = await agent_of(server)
        await house.share(await house.save(WORSE), 50)
        for number in range(16):
            await house.ask(agent, number)
            await house.pass_time(agent, 300)
        figures = await eventually(house.figures, lambda found: found["trial"]["canary"]["missed"] >= 6)
        assert (figures["trial"]["canary"]["good"], figures["trial"]["base"]["missed"]) == (0, 0)
        assert figures["trial"]["needs"] is None
        assert figures["trial"]["chance"] < 0.001
        assert await house.told("INSTRUCTION_TEMPLATE_ROLLED_BACK") == []


# -- the share ---------------------------------------------------------------------------------------------------------


@requirement("I16")
async def test_a_share_can_be_changed_ended_and_become_the_whole(house: House) -> None:
    good = await house.save(AS_GOOD)
    begun = await house.share(good, 10)
    assert (begun["version"], begun["canary"], begun["percent"]) == (builtin_templates.BUILT_IN_VERSION, good, 10)
    await house.clock.advance(1)
    assert await house.share(good, 10) == begun
    more = await house.share(good, 25)
    assert (more["canary"], more["percent"]) == (good, 25)
    assert more["since"] > begun["since"]
    ended = await house.share(good, 0)
    assert (ended["version"], ended["canary"], ended["percent"]) == (builtin_templates.BUILT_IN_VERSION, None, 0)
    assert await house.share(good, 0) == ended
    whole = await house.share(good, 100)
    assert (whole["version"], whole["canary"]) == (good, None)
    told = await house.told("INSTRUCTION_TEMPLATE_SAVED")
    assert [(each["version"], each.get("canary"), each.get("percent", 0)) for each in told][-4:] == [
        (builtin_templates.BUILT_IN_VERSION, good, 10),
        (builtin_templates.BUILT_IN_VERSION, good, 25),
        (builtin_templates.BUILT_IN_VERSION, None, 0),
        (good, None, 0),
    ]


@requirement("I16")
async def test_what_is_no_share_is_refused(house: House) -> None:
    good = await house.save(AS_GOOD)
    assert (await refused(house.share(good + 1, 10))).status == 404
    assert (await refused(house.share(builtin_templates.BUILT_IN_VERSION, 10))).status == 422
    assert (await refused(house.share(good, 101))).status == 422
    assert (await refused(house.share(good, -1))).status == 422
    unknown = house.path.replace(CLAUDE_CODE_TEMPLATE, "unheard-of")
    assert (await refused(house.owner.get(f"{unknown}/figures"))).status == 404
    assert (await refused(house.owner.post(f"{unknown}/canary", {"version": 1, "percent": 10}))).status == 404


@requirement("I16")
@pytest.mark.parametrize("role", ["operator", "viewer"])
async def test_only_owners_see_figures_and_share(house: House, role: str) -> None:
    other = await house.server.person(role)
    assert (await refused(other.get(f"{house.path}/figures"))).status == 403
    assert (await refused(other.post(f"{house.path}/canary", {"version": 1, "percent": 0}))).status == 403
    seat = await house.server.seat("Agent")
    assert (await refused(seat.api.get(f"{house.path}/figures"))).status == 403
