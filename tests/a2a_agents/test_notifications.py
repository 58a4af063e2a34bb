"""Push notifications of A2A agents of others: they make the server ask for the task, and change nothing else."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from molecule_core.a2a_agents import rules
from molecule_core.a2a_agents.model import A2AAgent, RemoteTask
from molecule_core.common.clock import SECOND
from molecule_core.common.limits import Limits
from testing.a2a_agents import V0_3, V1, A2ANetwork, StubAgent, completed
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.message_world import MessageWorld
from testing.raw_http import ask
from testing.running_server import Seat, running
from testing.waits import eventually
from tests.a2a_agents.conftest import A2AWorld
from tests.requirements import requirement

LINES = [
    pytest.param((V1, "JSONRPC"), id="1.0"),
    pytest.param((V1, "HTTP+JSON"), id="1.0 REST"),
    pytest.param((V0_3, "JSONRPC"), id="0.3"),
]
TOKEN = "X-A2A-Notification-Token"


@pytest.fixture
async def public(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[A2AWorld]:
    """A server with a public address, and a lead."""
    net = A2ANetwork()
    async with running(engine, place, tmp_path, clock=clock, fetcher=net, has_public_url=True) as server:
        world = MessageWorld(server, await server.person(), clock, net)
        yield A2AWorld(world, net, await server.seat("Lead"))


async def notify(a2a: A2AWorld, config: dict[str, Any], *, bearer: bool = False, **changed: str) -> int:
    """Send a notification as an agent does; the status of the response."""
    given = {**config, **changed}
    credentials = {"Authorization": f"Bearer {given['token']}"} if bearer else {TOKEN: given["token"]}
    path = urlsplit(given["url"]).path
    body = {"kind": "task", "id": "task-1", "status": {"state": "completed"}, "artifacts": [{"parts": "forged"}]}
    return (await ask(a2a.world.server.port, "POST", path, body, headers=credentials)).status


def finish(agent: StubAgent) -> None:
    """Complete the one task of an agent."""
    agent.add_artifact(agent.only_task(), "sorted")
    agent.set_state(agent.only_task(), "completed")


async def task_of(a2a: A2AWorld, seat: Seat, delegation_id: str) -> RemoteTask:
    """A task as it is stored."""
    task = await a2a.world.server.server.a2a_agents.reader.task(seat.id, delegation_id)
    assert task is not None
    return task


async def until_looks(a2a: A2AWorld, agent: StubAgent, count: int) -> None:
    """Wait until an agent was asked for tasks so often, without moving the time."""

    async def looks() -> int:
        await a2a.later(0)
        return agent.operations().count("GetTask")

    await eventually(looks, lambda found: found >= count)


async def until_at_rest(a2a: A2AWorld, seat: Seat, delegation_id: str) -> RemoteTask:
    """Wait until nothing looks at a task."""

    async def task() -> RemoteTask:
        await a2a.later(0)
        return await task_of(a2a, seat, delegation_id)

    return await eventually(task, lambda found: found.claim > 0 and found.leased_until == 0)


async def begun(a2a: A2AWorld, agent: StubAgent, name: str = "Ops") -> tuple[Seat, str, dict[str, Any]]:
    """A delegation whose task is open at an agent: the workspace, the delegation and where the agent notifies."""
    ops = await a2a.hire(agent, name)
    delegation_id = await a2a.delegate(ops)
    await a2a.until_followed(ops, delegation_id)
    await until_at_rest(a2a, ops, delegation_id)
    return ops, delegation_id, agent.push_configs[-1]


@pytest.mark.parametrize("bearer", [False, True], ids=["token", "authorization"])
@pytest.mark.parametrize("kind", LINES)
@requirement("M24", "D2")
async def test_a_notification_brings_the_result_without_a_poll(
    public: A2AWorld, kind: tuple[str, str], bearer: bool
) -> None:
    agent = StubAgent(line=kind[0], binding=kind[1], push=True)
    ops, delegation_id, config = await begun(public, agent)
    await public.later(1)
    await until_at_rest(public, ops, delegation_id)
    looks = agent.operations().count("GetTask")
    first = await notify(public, config, bearer=bearer)
    await public.later(1)
    await until_looks(public, agent, looks + 1)
    await until_at_rest(public, ops, delegation_id)
    looks = agent.operations().count("GetTask")
    await public.later(100)
    quiet = agent.operations().count("GetTask")
    finish(agent)
    second = await notify(public, config, bearer=bearer)
    row = await public.until(delegation_id, "completed")
    assert (first, second, row.result) == (202, 202, "sorted")
    assert (quiet, agent.operations().count("GetTask")) == (looks, looks + 1)
    assert len(await public.events("DELEGATION_COMPLETE")) == 1


async def test_a_lost_notification_is_made_up_for_by_a_rare_poll(public: A2AWorld) -> None:
    agent = StubAgent(push=True)
    ops, delegation_id, config = await begun(public, agent)
    looks = agent.operations().count("GetTask")
    await notify(public, config)
    await public.later(1)
    await until_looks(public, agent, looks + 1)
    task = await until_at_rest(public, ops, delegation_id)
    finish(agent)
    await public.later(Limits().a2a_notified_poll_seconds)
    await public.until(delegation_id, "completed")
    assert task.notified == 1


async def test_an_agent_that_never_notifies_is_polled_as_before(public: A2AWorld) -> None:
    agent = StubAgent(push=True)
    _, delegation_id, _ = await begun(public, agent)
    finish(agent)
    await public.later(2)
    row = await public.until(delegation_id, "completed")
    assert row.result == "sorted"


@pytest.mark.parametrize("changed", ["token", "task", "workspace", "none"])
async def test_a_wrong_notification_is_refused_as_unknown_and_leaves_nothing(public: A2AWorld, changed: str) -> None:
    agent = StubAgent(push=True)
    other = StubAgent("other.example", push=True)
    ops, delegation_id, config = await begun(public, agent)
    _, other_id, theirs = await begun(public, other, "Theirs")
    before = await task_of(public, ops, delegation_id)
    looks = agent.operations()
    wrong = {
        "token": {"token": "0" * 64},
        "task": {"token": theirs["token"]},
        "workspace": {"url": config["url"].replace(ops.id, "unknown")},
        "none": {"token": ""},
    }[changed]
    status = await notify(public, config, **wrong)
    await public.later(0)
    await public.world.rest()
    assert (status, await task_of(public, ops, delegation_id), agent.operations()) == (404, before, looks)
    assert other_id != delegation_id


async def test_what_a_notification_says_is_not_believed(public: A2AWorld) -> None:
    agent = StubAgent(push=True)
    ops, delegation_id, config = await begun(public, agent)
    looks = agent.operations().count("GetTask")
    await notify(public, config)
    await public.later(1)
    await until_looks(public, agent, looks + 1)
    await until_at_rest(public, ops, delegation_id)
    assert (await public.row(delegation_id)).settled_at is None


async def test_a_repeated_notification_of_an_ended_task_asks_for_nothing(public: A2AWorld) -> None:
    agent = StubAgent(push=True)
    _, delegation_id, config = await begun(public, agent)
    finish(agent)
    await public.later(1)
    await notify(public, config)
    await public.until(delegation_id, "completed")
    looks = agent.operations()
    statuses = [await notify(public, config) for _ in range(3)]
    await public.later(300)
    await public.world.rest()
    assert (statuses, agent.operations()) == ([202] * 3, looks)
    assert len(await public.events("DELEGATION_COMPLETE")) == 1


async def test_a_flood_of_notifications_asks_at_most_once_a_second(public: A2AWorld) -> None:
    agent = StubAgent(push=True)
    ops, delegation_id, config = await begun(public, agent)
    looks = agent.operations().count("GetTask")
    for _ in range(50):
        await notify(public, config)
        await public.later(0)
    flooded = agent.operations().count("GetTask")
    await public.later(1)
    await until_looks(public, agent, looks + 1)
    await until_at_rest(public, ops, delegation_id)
    assert (flooded, agent.operations().count("GetTask")) == (looks, looks + 1)


async def test_a_server_without_a_public_address_polls_and_says_so(a2a: A2AWorld) -> None:
    agent = StubAgent(push=True, script=completed())
    ops = await a2a.hire(agent)
    await a2a.until(await a2a.delegate(ops), "completed")
    shown = await a2a.world.person.get(f"/workspaces/{ops.id}/a2a-agent")
    assert (agent.push_configs, shown["updates"], shown["push_offered"]) == ([], "poll", True)


@pytest.mark.parametrize(
    ("streaming", "push", "updates"), [(True, True, "stream"), (False, True, "push"), (False, False, "poll")]
)
async def test_the_way_of_updates_is_shown(public: A2AWorld, streaming: bool, push: bool, updates: str) -> None:
    agent = StubAgent(streaming=streaming, push=push, script=completed())
    ops = await public.hire(agent)
    await public.until(await public.delegate(ops), "completed")
    shown = await public.world.person.get(f"/workspaces/{ops.id}/a2a-agent")
    assert (shown["updates"], shown["push_offered"]) == (updates, push)
    assert bool(agent.push_configs) == (updates == "push")
    assert "token" not in str(shown)


@pytest.mark.parametrize("kind", LINES)
async def test_an_agent_that_refuses_the_address_gets_its_messages_without(
    public: A2AWorld, kind: tuple[str, str]
) -> None:
    agent = StubAgent(line=kind[0], binding=kind[1], script=completed())
    agent.more = {"capabilities": {"pushNotifications": True}}
    ops = await public.hire(agent)
    for number in range(2):
        await public.until(await public.delegate(ops, f"task {number}"), "completed")
    assert [each.operation for each in agent.calls] == ["SendMessage"] * 3
    assert len(agent.tasks) == 2


def stored_task(*, due: int = 60 * SECOND, leased_until: int = 0) -> RemoteTask:
    """A task that its agent works on."""
    return RemoteTask(
        workspace_id="w",
        activity_id="a",
        org_id="o",
        seq=1,
        source_id=None,
        kind=None,
        conversation="c",
        task_id="t",
        context_id=None,
        state="working",
        claim=3,
        polls=2,
        failures=0,
        asked=None,
        due=due,
        created_at=0,
        updated_at=0,
        leased_until=leased_until,
    )


def test_a_notification_during_a_look_is_followed_by_another_look() -> None:
    now = 10 * SECOND
    leased = stored_task(leased_until=60 * SECOND)
    noted = rules.with_notification(leased, now)
    shown = stored_task(due=130 * SECOND)
    left = rules.after_look(noted, shown, now)
    assert (noted.due, noted.leased_until) == (leased.due, leased.leased_until)
    assert (left.due, left.notified, left.leased_until) == (now + SECOND, 1, 0)
    assert rules.after_look(leased, shown, now).due == shown.due


def test_a_notification_after_its_follower_died_does_not_wait_for_it() -> None:
    task = stored_task(leased_until=5 * SECOND)
    assert rules.with_notification(task, 10 * SECOND).due == 10 * SECOND


def test_a_token_is_good_for_one_task_of_one_agent() -> None:
    agents = [
        A2AAgent(workspace_id, "o", "https://a.example", None, "{}", None, 0, None, key)
        for workspace_id, key in (("w", "k"), ("v", "k"), ("w", "other"))
    ]
    tokens = {rules.notification_token(each, name) for each in agents for name in ("a", "b")}
    token = rules.notification_token(agents[0], "a")
    assert len(tokens) == 6
    assert rules.is_notification_token(agents[0], "a", token)
    assert not rules.is_notification_token(A2AAgent("w", "o", "", None, "{}", None, 0, None, ""), "a", token)
