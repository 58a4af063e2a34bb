"""What a delegation may do: never more than its parent, through every entrance, and whatever its worker calls."""

from typing import Any

import msgspec
import pytest

from molecule_core.client.api import ApiError
from molecule_core.wire.schemas.delegation_scope import DelegationScope
from testing.acceptance_jobs import new_job
from testing.delegation_entrances import Giving
from testing.delegation_steps import names_of, row_of, told_of
from testing.mcp_clients import Line, stateless
from testing.message_world import MessageWorld
from testing.running_server import Seat
from testing.waits import bounded, refused
from tests.requirements import requirement

READING = {"tools": ["docs.read", "delegate_task"], "depth": 2}


async def give(source: Seat, target: Seat, task: str = "sort the mail", **more: Any) -> dict[str, Any]:
    """A workspace delegates over HTTP."""
    body = {"target_id": target.id, "task": task, **more}
    found: dict[str, Any] = await bounded(source.api.post(f"/workspaces/{source.id}/delegate", body))
    return found


async def expect_refusal(source: Seat, target: Seat, task: str = "sort the mail", **more: Any) -> ApiError:
    """The refusal of a delegation."""
    error: ApiError = await refused(give(source, target, task, **more))
    assert (error.status, error.code) == (403, "outside_scope"), error
    return error


async def working(world: MessageWorld, source: Seat, target: Seat, **may: Any) -> str:
    """A task that its target has claimed; its id."""
    given = await give(source, target, may=may, task=f"work within {may}")
    await world.take(target)
    return str(given["delegation_id"])


async def may_use(seat: Seat, tool: str, **query: Any) -> bool:
    """Whether a workspace may use a tool of its own."""
    found = await seat.api.get(f"/workspaces/{seat.id}/scope", tool=tool, **query)
    assert found.get("allowed", True) == (not found.get("reason"))
    return bool(found.get("allowed", True))


@pytest.fixture
async def team(world: MessageWorld) -> tuple[Seat, Seat, Seat, Seat]:
    """Four workspaces that may all talk to each other."""
    lead, ops, helper, other = [await world.server.seat(name) for name in ("Lead", "Ops", "Helper", "Other")]
    return lead, ops, helper, other


Team = tuple[Seat, Seat, Seat, Seat]


@requirement("AU1")
async def test_a_child_has_what_its_parent_and_its_request_have_in_common(world: MessageWorld, team: Team) -> None:
    lead, ops, helper, _ = team
    parent = await working(world, lead, ops, tools=["docs.*", "delegate_task", "mail.send"], depth=3)
    child = await give(ops, helper, in_reply_to=parent, may={"tools": ["docs.read"], "approvals": False})
    expected = {"tools": ["docs.read"], "depth": 2, "approvals": False}
    assert child["may"] == expected
    detail = await helper.api.get(f"/delegations/{child['delegation_id']}")
    assert detail["may"] == expected
    (row,) = await world.take(helper)
    assert row["request_body"]["params"]["message"]["metadata"]["may"] == expected
    (sent, *_) = await told_of(world, child["delegation_id"])
    assert sent[1]["may"] == expected


@requirement("AU1")
async def test_a_child_without_limits_of_its_own_inherits_those_of_its_parent(world: MessageWorld, team: Team) -> None:
    lead, ops, helper, other = team
    parent = await working(world, lead, ops, **READING, peers=[helper.id, other.id])
    child = await give(ops, helper, in_reply_to=parent)
    assert child["may"] == {**READING, "depth": 1, "peers": [helper.id, other.id]}
    await world.take(helper)
    below = await give(helper, other, in_reply_to=child["delegation_id"])
    assert below["may"]["depth"] == 0
    await world.take(other)
    await expect_refusal(other, lead, "once more", in_reply_to=below["delegation_id"])


@requirement("AU1")
@pytest.mark.parametrize(
    "more", [{"tools": ["mail.send"]}, {"tools": ["*"]}, {"tools": ["docs.read", "docs.*"]}, {"depth": 2}]
)
async def test_a_child_that_asks_for_more_than_its_parent_is_refused(
    world: MessageWorld, team: Team, more: dict[str, Any]
) -> None:
    lead, ops, helper, _ = team
    parent = await working(world, lead, ops, **READING)
    error = await expect_refusal(ops, helper, in_reply_to=parent, may=more)
    assert "outside what this work may do" in str(error)
    assert (await names_of(world))[-1] == "DELEGATION_REFUSED"
    assert await world.take(helper) == []


@requirement("AU1")
async def test_a_peer_that_is_not_named_is_given_nothing(world: MessageWorld, team: Team) -> None:
    lead, ops, helper, other = team
    parent = await working(world, lead, ops, peers=[helper.id])
    await expect_refusal(ops, other, in_reply_to=parent)
    assert (await give(ops, helper, in_reply_to=parent))["may"] == {"peers": [helper.id]}


@requirement("AU1")
async def test_a_delegation_that_names_no_work_counts_under_all_that_its_caller_holds(
    world: MessageWorld, team: Team
) -> None:
    lead, ops, helper, other = team
    await working(world, lead, ops, tools=["docs.*", "delegate_task"])
    await working(world, other, ops, tools=["docs.read", "mail.*", "delegate_task"], depth=1)
    child = await give(ops, helper)
    assert child["may"] == {"tools": ["delegate_task", "docs.read"], "depth": 0} or child["may"] == {
        "tools": ["docs.read", "delegate_task"],
        "depth": 0,
    }


@requirement("AU1")
async def test_what_is_named_alone_counts(world: MessageWorld, team: Team) -> None:
    lead, ops, helper, other = team
    narrow = await working(world, lead, ops, tools=["docs.read"])
    wide = str((await give(other, ops, "anything"))["delegation_id"])
    await world.take(ops)
    assert await may_use(ops, "mail.send", delegation_id=wide)
    assert not await may_use(ops, "mail.send", delegation_id=narrow)
    assert not await may_use(ops, "mail.send")
    assert "may" not in await give(ops, helper, in_reply_to=wide)


@requirement("AU1")
async def test_a_scope_binds_from_the_claim_to_the_end_of_the_work(world: MessageWorld, team: Team) -> None:
    lead, ops, *_ = team
    given = await give(lead, ops, may={"tools": ["docs.read"]})
    assert await may_use(ops, "mail.send"), "it has not read the task yet"
    (row,) = await world.take(ops)
    assert not await may_use(ops, "mail.send")
    await bounded(
        ops.api.post(f"/workspaces/{ops.id}/delegations/{row['id']}/update", {"status": "completed", "result": "done"})
    )
    assert await may_use(ops, "mail.send")
    assert not await may_use(ops, "docs.read", delegation_id=given["delegation_id"]), "the scope has ended too"


@requirement("AU1")
async def test_after_its_deadline_a_task_may_do_nothing(world: MessageWorld, team: Team) -> None:
    lead, ops, helper, _ = team
    given = await give(lead, ops, may=READING, deadline_seconds=60)
    await world.take(ops)
    await world.pass_time(59)
    assert await may_use(ops, "docs.read", delegation_id=given["delegation_id"])
    child = await give(ops, helper, in_reply_to=given["delegation_id"], deadline_seconds=3600)
    assert (await row_of(world, child["delegation_id"])).deadline_at == (
        await row_of(world, given["delegation_id"])
    ).deadline_at
    await world.pass_time(2)
    assert not await may_use(ops, "docs.read", delegation_id=given["delegation_id"])
    await expect_refusal(ops, helper, "once more", in_reply_to=given["delegation_id"])


@requirement("AU1")
async def test_tools_of_the_server_are_refused_that_no_scope_names(world: MessageWorld, team: Team) -> None:
    lead, ops, helper, _ = team
    await working(world, lead, ops, tools=["recall_memory"])
    own = f"/workspaces/{ops.id}"
    for method, path, body in (
        ("POST", f"{own}/memories", {"content": "a fact", "scope": "LOCAL"}),
        ("POST", f"{own}/memory", {"key": "k", "value": 1}),
        ("POST", f"{own}/notify", {"message": "hello"}),
        ("POST", f"/workspaces/{helper.id}/a2a", text("hello")),
    ):
        error = await refused(bounded(ops.api.call(method, path, body=body)))
        assert (error.status, error.code) == (403, "outside_scope"), path
    assert await ops.api.get(f"{own}/memory") is not None
    assert await world.take(helper) == []


@requirement("AU1")
async def test_peers_are_reached_that_the_scope_names_and_the_delegator_always(world: MessageWorld, team: Team) -> None:
    lead, ops, helper, other = team
    await working(world, lead, ops, peers=[helper.id])
    await bounded(ops.api.post(f"/workspaces/{helper.id}/a2a", text("hello")))
    error = await refused(bounded(ops.api.post(f"/workspaces/{other.id}/a2a", text("hello"))))
    assert error.code == "outside_scope"
    await bounded(ops.api.post(f"/workspaces/{lead.id}/a2a", text("hello")))


@requirement("AU1")
async def test_approvals_are_requested_by_no_task_that_may_not(world: MessageWorld, team: Team) -> None:
    lead, ops, *_ = team
    await working(world, lead, ops, approvals=False)
    wanted = {"action": "spend", "reason": "to buy"}
    error = await refused(bounded(ops.api.post(f"/workspaces/{ops.id}/approvals", wanted)))
    assert error.code == "outside_scope"
    rules = {"rules": [{"action": "tool:send_message_to_user"}]}
    await world.person.call("PUT", f"/workspaces/{ops.id}/approval-rules", body=rules)
    error = await refused(bounded(ops.api.post(f"/workspaces/{ops.id}/notify", {"message": "hello"})))
    assert error.code == "outside_scope", "nor by a rule"


@requirement("AU1")
async def test_a_retry_may_do_what_the_first_try_could(world: MessageWorld, team: Team) -> None:
    lead, ops, *_ = team
    first = await working(world, lead, ops, tools=["docs.read"])
    await lead.api.post(f"/workspaces/{lead.id}/delegations/{first}/cancel", {})
    again = await bounded(lead.api.post(f"/workspaces/{lead.id}/delegations/{first}/retry", {}))
    assert again["may"] == {"tools": ["docs.read"]}


@requirement("AU1", "D20")
async def test_an_answer_that_comes_back_says_again_what_the_task_may_and_names_the_task(world: MessageWorld) -> None:
    job = await new_job(world)
    may = {"tools": ["docs.read", "delegate_task"], "peers": []}
    await job.begin([{"type": "text", "contains": "42"}], rounds=1, may=may)
    first = await job.claim()
    await job.answer("done", row=first)
    returned = await job.claim()
    for row in (first, returned):
        message = row["request_body"]["params"]["message"]
        assert message["metadata"]["may"] == may
        assert "- tools: docs.read, delegate_task, and those that answer it" in message["parts"][-1]["text"]
        assert _says_that_it_is_restricted(row)
    wide = str((await give(job.other, job.ops, "anything"))["delegation_id"])
    await world.take(job.ops)
    assert await may_use(job.ops, "mail.send", delegation_id=wide)
    assert not await may_use(job.ops, "mail.send", delegation_id=returned["id"])
    await job.answer("42", row=returned)
    assert not await may_use(job.ops, "docs.read", delegation_id=returned["id"]), "its scope has ended"
    await expect_refusal(job.ops, job.other, in_reply_to=returned["id"])


def _says_that_it_is_restricted(row: dict[str, Any]) -> bool:
    """Whether the instructions of a message say so, in full or in short."""
    said = row["instructions"]["text"]
    return "It lists what it may use." in said or "may use only what it lists" in said


@requirement("AU1")
async def test_a_task_that_is_delivered_again_says_again_what_it_may(world: MessageWorld, team: Team) -> None:
    lead, ops, *_ = team
    await give(lead, ops, may={"depth": 0})
    await world.take(ops)
    await world.pass_time(601)
    (again,) = await world.take(ops)
    assert again["redelivered"]
    assert again["request_body"]["params"]["message"]["metadata"]["may"] == {"depth": 0}
    assert _says_that_it_is_restricted(again)


NAMING = "X-Molecule-Delegation"


async def called_for(task: str, seat: Seat, path: str, body: dict[str, Any]) -> Any:
    """A call of a host that works on a task and says so."""
    own = f"/workspaces/{seat.id}/{path}"
    return await bounded(seat.api.call("POST", own, body=body, headers={NAMING: task}))


@requirement("AU1")
async def test_a_host_that_names_its_task_is_held_to_it_until_and_after_its_end(
    world: MessageWorld, team: Team
) -> None:
    lead, ops, helper, other = team
    task = await working(world, lead, ops, tools=["delegate_task", "recall_memory"])
    wide = str((await give(other, ops, "anything"))["delegation_id"])
    await world.take(ops)
    begin = {"target_id": helper.id, "task": "help", "in_reply_to": wide}
    begun = await called_for(task, ops, "delegate", begin)
    assert begun["may"] == {"tools": ["delegate_task", "recall_memory"]}, "its model cannot name another task"
    assert "may" not in await called_for(wide, ops, "delegate", {**begin, "task": "help more"})
    await called_for(wide, ops, "notify", {"message": "hello"})
    await lead.api.post(f"/workspaces/{lead.id}/delegations/{task}/cancel", {})
    for path, body in (("notify", {"message": "hello"}), ("delegate", {**begin, "task": "once more"})):
        error = await refused(called_for(task, ops, path, body))
        assert (error.status, error.code) == (403, "outside_scope"), path
    await ops.api.post(f"/workspaces/{ops.id}/notify", {"message": "of its own"})


@requirement("AU1")
async def test_a_host_names_its_task_to_the_mcp_endpoint_too(world: MessageWorld, team: Team) -> None:
    lead, ops, _, other = team
    narrow = await working(world, lead, ops, tools=["recall_memory"])
    wide = str((await give(other, ops, "anything"))["delegation_id"])
    await world.take(ops)
    line = Line(world.server, ops.token, "/mcp")
    call = {"name": "commit_memory", "arguments": {"content": "a fact"}}
    told = [
        (await line.post(stateless("tools/call", call), None, **{NAMING.replace("-", "_"): task})).json["result"]
        for task in (wide, narrow)
    ]
    assert [each.get("isError", False) for each in told] == [False, True], told
    assert "outside what this work may do" in str(told[1])


@requirement("AU1")
async def test_a_retry_lists_what_it_may_once(world: MessageWorld, team: Team) -> None:
    lead, ops, *_ = team
    first = await working(world, lead, ops, approvals=False)
    await lead.api.post(f"/workspaces/{lead.id}/delegations/{first}/cancel", {})
    await bounded(lead.api.post(f"/workspaces/{lead.id}/delegations/{first}/retry", {}))
    rows = [row for row in await world.take(ops) if row["kind"] == "delegation"]
    parts = rows[-1]["request_body"]["params"]["message"]["parts"]
    assert [each["text"].splitlines()[0] for each in parts] == [
        "work within {'approvals': False}",
        "This task may use at most:",
    ]


@requirement("AU1")
async def test_an_open_task_that_may_do_more_is_no_answer_to_a_narrower_request(
    world: MessageWorld, team: Team
) -> None:
    lead, ops, *_ = team
    await give(lead, ops)
    await expect_refusal(lead, ops, may={"tools": ["docs.read"]})
    assert (await give(lead, ops))["idempotent_hit"]


@requirement("AU1")
async def test_a_restart_forgets_no_scope(world: MessageWorld, team: Team) -> None:
    lead, ops, *_ = team
    await working(world, lead, ops, tools=["docs.read"])
    cache = world.server.server.delegations.scope_cache
    cache._by_workspace.clear()
    assert await may_use(ops, "mail.send")
    await cache.open(world.server.server.store)
    assert not await may_use(ops, "mail.send")


@requirement("AU1")
async def test_every_entrance_narrows_and_never_widens(giving: Giving, world: MessageWorld) -> None:
    lead, ops, helper = [await world.server.seat(name) for name in ("Lead", "Ops", "Helper")]
    await working(world, lead, ops, **READING)
    begun = await giving.entrance.begin(world.server, ops, helper.id, "count", may={"tools": ["docs.read"]})
    assert not begun.refused, begun
    detail = await helper.api.get(f"/delegations/{begun.delegation_id}")
    assert detail["may"] == {"tools": ["docs.read"], "depth": 1}
    begun = await giving.entrance.begin(world.server, ops, helper.id, "count more", may={"tools": ["mail.send"]})
    assert "outside what this work may do" in begun.refused


def text(words: str) -> dict[str, Any]:
    """A message of A2A."""
    message = {"role": "user", "parts": [{"kind": "text", "text": words}]}
    return {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": message}}


PATTERNS = [["*"], ["docs.*"], ["docs.read"], ["docs.read", "mail.*"], ["mail.send"], [], None]
NAMES = ["docs.read", "docs.write", "docs.", "mail.send", "mail", "other"]


@requirement("AU1")
@pytest.mark.parametrize("one", PATTERNS)
@pytest.mark.parametrize("other", PATTERNS)
def test_two_scopes_together_allow_what_both_allow(one: list[str] | None, other: list[str] | None) -> None:
    left, right = DelegationScope(tools=one), DelegationScope(tools=other)
    both = left.narrow(right)
    for name in NAMES:
        assert both.allows_tool(name) == (left.allows_tool(name) and right.allows_tool(name)), name
    assert not left.excess_of(both)
    assert msgspec.json.decode(msgspec.json.encode(both), type=DelegationScope) == both
