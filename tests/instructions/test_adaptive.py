"""What a complying agent is told costs little: in full once, and again when it has missed something."""

import statistics
import sys

import pytest

from molecule_core.instructions import builtin_templates
from testing.waits import eventually
from tests.instructions.template_trials import TemplateTrial
from tests.instructions.tokenizer import tokens
from tests.instructions.untrained_agents import Agent, Heard, agent_of
from tests.requirements import requirement

_MESSAGES, _MOST_TOKENS = 200, 60


def layer_tokens(heard: Heard) -> int:
    """What the instructions add to a message for the model that reads it, in the XML form: their words and the tags
    around both."""
    return tokens(f"<instructions>\n{heard.text}\n</instructions>\n<body>\n</body>")


@requirement("I15", "I14", "I16")
@pytest.mark.parametrize("tools", [("reply_to_workspace",), ("reply", "reply_to_workspace", "decline", "inbox_pop")])
async def test_two_hundred_messages_to_a_complying_agent_average_sixty_tokens(
    trial: TemplateTrial, tools: tuple[str, ...]
) -> None:
    agent = await agent_of(trial.server, tools=tools)
    for number in range(_MESSAGES):
        await trial.ask(agent, number)
    costs = [layer_tokens(each) for each in agent.heard]
    sys.stdout.write(f"\n{_MESSAGES} messages: {statistics.mean(costs):.1f} tokens each, the first {costs[0]}\n")
    assert len(costs) == _MESSAGES
    assert agent.stdout == []
    assert statistics.mean(costs) <= _MOST_TOKENS
    assert [each.instructions["form"] for each in agent.heard] == ["full", *["compact"] * (_MESSAGES - 1)]

    # What the platform counts, without a tokenizer, is near to it.
    figures = await trial.version(builtin_templates.BUILT_IN_VERSION)
    words = sum(tokens(each.text) for each in agent.heard)
    assert figures["answered"] == _MESSAGES
    assert figures["tokens"] == pytest.approx(words, rel=0.25)


@requirement("I15", "M28")
async def test_after_a_miss_the_next_message_is_told_in_full(trial: TemplateTrial) -> None:
    agent = await agent_of(trial.server)
    for number in range(3):
        await trial.ask(agent, number)
    agent.is_mute = True
    await trial.ask(agent, 3)
    reminder = await until_reminded(trial, agent)
    assert (reminder.row["id"], reminder.instructions["form"]) == (agent.heard[3].row["id"], "full")
    await until_overdue(trial, agent, 1)
    agent.is_mute = False
    after = [each for number in range(4, 7) for each in await trial.ask(agent, number)]
    assert [each.instructions["form"] for each in after] == ["full", "compact", "compact"]


async def until_reminded(trial: TemplateTrial, agent: Agent) -> Heard:
    """Time passes until an agent is told again of its last message."""
    count = len(agent.heard)

    async def passing() -> int:
        await trial.pass_time(agent)
        return len(agent.heard)

    await eventually(passing, lambda found: found > count)
    return agent.heard[-1]


async def until_overdue(trial: TemplateTrial, agent: Agent, count: int) -> None:
    """Time passes until so many messages are overdue."""

    async def passing() -> int:
        await trial.pass_time(agent)
        return int((await trial.version(builtin_templates.BUILT_IN_VERSION))["overdue"])

    await eventually(passing, lambda found: found == count)
