"""Agents ask for leave and decide by their tools and from a shell, on a real server."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from molecule_core.agent.client.retry import BoundedRetry, to_tool_error
from molecule_core.cli import molecule
from molecule_core.client.api import ApiError
from molecule_core.common.clock import SystemClock
from molecule_core.tools.runners import approval_tools
from molecule_core.tools.runners.requester import RetryingRequester
from molecule_core.tools.schemas.approvals import RequestApprovalArguments
from molecule_core.tools.spec import NO_ANSWER_CODE, ToolError
from testing.approval_world import ApprovalWorld, verb
from testing.clocks import FakeClock, SeededRandomness
from testing.mcp_clients import hosted
from testing.running_server import Seat
from testing.waits import PROCESS_START_SECONDS, bounded, eventually, until_waiting
from tests.requirements import requirement
from tests.tools.tool_callers import Sitting

pytestmark = pytest.mark.parametrize("engine", ["sqlite"])
ASKED: dict[str, Any] = {"action": "refund", "reason": "it was broken", "details": {"euro": 40}, "cost": 40}


async def refused(work: Any) -> ToolError:
    """The refusal of a tool."""
    with pytest.raises(ToolError) as found:
        await bounded(work)
    return found.value


async def asked_of(agent: Sitting) -> dict[str, Any]:
    """The message by which an agent is asked."""
    message: dict[str, Any] = (await agent("wait_for_message", timeout_secs=0))["message"]
    assert message["kind"] == "approval_request"
    return message


def facts(message: dict[str, Any]) -> dict[str, Any]:
    """What a decision is about, as the message says it."""
    return {name: message[name] for name in ("approval_id", "revision", "action_hash")}


@requirement("Q9", "Q2")
async def test_who_asks_and_waits_is_told_what_its_parent_decides_about_exactly_that(world: ApprovalWorld) -> None:
    lead, worker = await world.line("Lead", "Worker")
    boss, agent = Sitting(lead), Sitting(worker)
    waiting = asyncio.create_task(agent("request_approval", **ASKED, wait=60))
    await until_waiting(world.server.server, 1)
    message = await asked_of(boss)
    told = message["instructions"]
    assert (told["reply_via"], told.get("reply_handle", "")) == ("decide_approval", "")
    assert told["reply_args"] == {name: message[name] for name in ("approval_id", "action_hash")}
    said = await boss("decide_approval", **facts(message), decision="approve", note="fine")
    assert (said["status"], said["settled"]) == ("approved", True)
    found = await bounded(waiting)
    assert (found["status"], found["details"], found["said"]) == ("approved", {"euro": 40}, "fine")
    assert found["decided_by"] == "Lead"
    assert (await boss("inbox_peek"))["messages"] == []
    again = await boss("decide_approval", **facts(message), decision="approve")
    assert again["status"] == "approved"
    late = await refused(boss("decide_approval", **facts(message), decision="deny"))
    assert late.code == "already_decided"


@requirement("Q9", "Q4")
async def test_what_is_asked_back_comes_as_a_message_and_the_old_version_cannot_be_approved(
    world: ApprovalWorld,
) -> None:
    lead, worker = await world.line("Lead", "Worker")
    boss, agent = Sitting(lead), Sitting(worker)
    receipt = await agent("request_approval", **ASKED, wait=0)
    assert (receipt["status"], receipt["settled"], receipt["holder"]) == ("pending", False, "Lead")
    first = await asked_of(boss)
    await boss("decide_approval", approval_id=first["approval_id"], decision="more_info", note="Why 40?")
    question = (await agent("wait_for_message", timeout_secs=0))["message"]
    assert (question["kind"], question["intent"]) == ("approval_decision", "request")
    item = {"approval_id": first["approval_id"], "workspace_id": worker.id}
    await verb(worker, item, "answer", text="It was 400.", details={"euro": 400})

    # An agent that was shown nothing newer decides about what it saw; another process of it says what it means.
    assert (await refused(boss("decide_approval", approval_id=first["approval_id"], decision="approve"))).code in (
        "approval_changed",
    )
    fresh = await refused(Sitting(lead)("decide_approval", approval_id=first["approval_id"], decision="approve"))
    assert (fresh.code, "has changed" in fresh.text) == ("approval_changed", True)
    second = await asked_of(boss)
    assert (second["revision"], second["action_hash"] != first["action_hash"]) == (2, True)
    ambiguous = await refused(boss("decide_approval", approval_id=first["approval_id"], decision="approve"))
    assert ambiguous.code == "approval_changed"
    assert (await boss("decide_approval", **facts(second), decision="deny"))["status"] == "denied"


@requirement("Q9", "Q5", "G12")
async def test_a_requester_decides_nothing_of_its_own_by_any_tool(world: ApprovalWorld, tmp_path: Path) -> None:
    lead, worker = await world.line("Lead", "Worker")
    item = await world.asks(worker)
    own = {"approval_id": item["approval_id"], "decision": "approve"}
    assert (await refused(Sitting(worker)("decide_approval", **own))).code == "own_approval"
    async with hosted(world.server, worker.token, "stateless") as host:
        assert "cannot decide its own approval request" in await host.refused("decide_approval", **own)
    said = await shell(world, worker, tmp_path, "approvals", "decide", item["approval_id"], "approve")
    assert (said.exit_code, "cannot decide its own approval request" in said.stderr) == (1, True)
    # Of two workspaces in one process the one decides that is asked.
    other = await world.seat("Other")
    both = await Sitting(other, lead)("decide_approval", **own)
    assert (both["workspace_id"], both["status"]) == (lead.id, "approved")


@requirement("Q9", "Q6")
@pytest.mark.parametrize("way", ["host", "caller"])
async def test_a_call_that_a_rule_has_stopped_is_made_again_with_its_approval_once(
    world: ApprovalWorld, way: str
) -> None:
    worker = await world.seat("Worker")
    rules = {"rules": [{"action": "tool:send_message_to_user"}, {"action": "tool:reply"}]}
    await world.person.call("PUT", f"/workspaces/{worker.id}/approval-rules", body=rules)

    async with hosted(world.server, worker.token, "stateless") as host:

        async def refusal(**given: Any) -> str:
            if way == "host":
                return await host.refused("send_message_to_user", **given)
            return (await refused(Sitting(worker)("send_message_to_user", **given))).text

        said = await refusal(message="hello")
        (item,) = (await worker.api.get(f"/workspaces/{worker.id}/approvals"))["approvals"]
        again = {"message": "hello", "approval_id": item["approval_id"]}
        assert f'approval_id "{item["approval_id"]}"' in said and "header" not in said
        assert (item["source"], item["tool"]) == ("rule", "send_message_to_user")
        assert "is pending" in await refusal(**again)
        await world.person_decides(item, "approve")
        assert "allows other arguments" in await refusal(**{**again, "message": "something else"})
        sent = host.call("send_message_to_user", **again)
        assert (await (sent if way == "host" else Sitting(worker)("send_message_to_user", **again)))["status"]
        if way != "host":
            sent.close()
        assert "was already used" in await refusal(**again)

        # A tool that is a walk of its own says it too.
        await world.person.send(worker.id, "and?")
        row = next(each for each in await world.mail(worker) if each["kind"] == "canvas_user")
        answer = {"handle": row["instructions"]["reply_handle"], "text": "yes"}
        assert "tool:reply needs an approval" in await host.refused("reply", **answer)
        (item,) = (await worker.api.get(f"/workspaces/{worker.id}/approvals", state="open"))["approvals"]
        await world.person_decides(item, "approve")
        assert (await host.call("reply", **answer, approval_id=item["approval_id"]))["state"] == "answered"


# -- a shell -----------------------------------------------------------------------------------------------------------


async def shell(world: ApprovalWorld, seat: Seat | None, home: Path, *args: str) -> Result:
    """A command of an agent's shell, or of the owner's."""
    own = {"ADMIN_TOKEN": "", "WORKSPACE_ID": "", "MOLECULE_WORKSPACES": "", "CONFIGS_DIR": str(home)}
    if seat is None:
        own |= {"ADMIN_TOKEN": "test-" + "a" * 32, "MOLECULE_STATE_DIR": str(home)}
        args = (*args, "--port", str(world.server.port))
    else:
        own |= {"WORKSPACE_ID": seat.id, "MOLECULE_WORKSPACE_TOKEN": seat.token, "PLATFORM_URL": world.server.url}
    async with asyncio.timeout(PROCESS_START_SECONDS):
        return await asyncio.to_thread(CliRunner().invoke, molecule, args, None, own)


@requirement("Q9", "G4")
async def test_a_shell_asks_and_an_owners_shell_looks_decides_and_sets_rules(
    world: ApprovalWorld, tmp_path: Path
) -> None:
    worker = await world.seat("Worker")

    async def own(*args: str) -> Result:
        return await shell(world, worker, tmp_path, "approvals", *args)

    async def owners(*args: str) -> Result:
        return await shell(world, None, tmp_path, "approvals", *args)

    asking = ("request", "refund\x1b[31m", "--reason", "broken", "--details", '{"euro": 40}', "--wait", "0")
    assert (await own(*asking)).exit_code == 1  # no such name is taken
    said = await own("request", "refund", *asking[2:])
    assert (said.exit_code, "arrives in your inbox" in said.stderr) == (3, True)
    id_ = said.stdout.split()[0]
    assert f"{id_}  " in (await owners("list")).stdout and "Worker: refund" in (await own("list")).stdout
    shown = await owners("show", id_)
    assert 'details: {"euro":40}' in shown.stdout and "requested" in shown.stdout
    told = json.loads((await owners("show", id_, "--json")).stdout)
    assert told["source"] == "tool"

    assert (await owners("decide", id_, "more_info", "--note", "Why?")).exit_code == 0
    assert (await own("answer", id_, "Because.")).exit_code == 0
    refusal = await owners("decide", id_, "approve")
    assert "has changed" in str(refusal.exception)
    about = ("--revision", "2", "--action-hash", told["action_hash"])
    assert "approved" in (await owners("decide", id_, "approve", *about)).stdout
    assert "used at" in (await own("use", id_, told["action_hash"])).stdout
    assert (await own("use", id_, told["action_hash"])).exit_code == 1
    assert "no approvals" in (await owners("list")).stdout

    second = (await own("request", "refund", *asking[2:])).stdout.split()[0]
    assert "withdrawn" in (await own("withdraw", second)).stdout
    rule = '[{"action": "refund", "cost_above": 10}]'
    assert (await own("rules", "--set", rule)).exit_code == 1  # an agent sets none
    assert (await owners("rules", worker.id, "--set", rule)).stdout == "refund  cost_above=10.0\n"
    assert (await owners("rules", "Worker")).stdout == "refund  cost_above=10.0\n"
    assert (await owners("authority", worker.id)).stdout == "none\n"
    assert "workspace 'No one' does not exist" in str((await owners("rules", "No one")).exception)
    assert "withdrawn" in (await owners("list", "--workspace", "Worker")).stdout


class Outage:
    """The way of an agent to the server, on which the next waits for a decision come back with something else."""

    def __init__(self, seat: Seat, *lost: ToolError) -> None:
        self._speaker = RetryingRequester(seat.api, BoundedRetry(clock=SystemClock(), randomness=SeededRandomness(1)))
        self.lost = list(lost)

    async def call(self, method: str, path: str, **more: Any) -> Any:
        """One request."""
        if self.lost and approval_tools.is_approval_wait(path, more.get("query")):
            raise self.lost.pop()
        return await self._speaker.call(method, path, **more)


@requirement("Q4")
async def test_who_waits_for_a_decision_has_it_though_the_server_was_away_or_the_token_was_being_replaced(
    world: ApprovalWorld,
) -> None:
    lead, worker = await world.line("Lead", "Worker")
    replaced = to_tool_error(
        ApiError(401, {"error": "invalid token", "code": "invalid_credential"}), is_token_renewable=True
    )
    elsewhere = to_tool_error(ApiError(302, {"error": "leads elsewhere"}))
    way, clock = (
        Outage(worker, ToolError("the server did not answer", NO_ANSWER_CODE), replaced, elsewhere),
        FakeClock(),
    )
    given = RequestApprovalArguments(action="refund", reason="it was broken", wait=60)
    waiting = asyncio.ensure_future(approval_tools.request_approval(way, worker.id, given, clock=clock))
    where = f"/workspaces/{worker.id}/approvals"
    page = await eventually(lambda: world.person.get(where), lambda page: len(page["approvals"]) == 1)
    await world.decides(lead, page["approvals"][0], "approve")
    for _ in range(3):
        await eventually(lambda: _sleepers(clock), lambda count: count == 1)
        await clock.advance(1)
    assert (await bounded(waiting))["status"] == "approved"
    assert way.lost == []


async def _sleepers(clock: FakeClock) -> int:
    return clock.sleepers
