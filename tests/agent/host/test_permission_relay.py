"""What a host asks its person to permit is asked for on the platform too, and the decision goes back to the host. A
real server; a host played by a test."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from testing.mcp_host import Agent, agent, seated, several, single
from testing.running_server import Running, Seat
from testing.waits import bounded, eventually
from tests.requirements import requirement

METHOD = "notifications/claude/channel/permission_request"
ANSWER = "notifications/claude/channel/permission"
ASKED = {"request_id": "abcde", "tool_name": "Bash", "description": "clean up", "input_preview": "rm -r build"}


async def waiting(seat: Seat, count: int = 1, state: str = "open") -> list[dict[str, Any]]:
    """The approvals of a workspace, as soon as there are so many."""
    path = f"/workspaces/{seat.id}/approvals"
    page = await eventually(lambda: seat.api.get(path, state=state), lambda found: len(found["approvals"]) == count)
    found: list[dict[str, Any]] = page["approvals"]
    return found


def answers(process: Agent) -> list[dict[str, Any]]:
    """What the host was told."""
    return [each["params"] for each in process.notifications if each["method"] == ANSWER]


def was_answered(request_id: str, process: Agent) -> bool:
    """Whether the host was told the decision of a request."""
    return request_id in [each["request_id"] for each in answers(process)]


async def decided(server: Running, item: dict[str, Any], decision: str, **more: Any) -> None:
    """A person decides."""
    about = {"revision": item["revision"], "action_hash": item["action_hash"]}
    path = f"/workspaces/{item['workspace_id']}/approvals/{item['approval_id']}/decide"
    await bounded(server.admin.post(path, {"decision": decision, **about, **more}))


@requirement("G16", "Q1")
async def test_what_the_platform_decides_is_told_to_the_host_and_each_question_waits_for_itself(
    one: Running, state: Path
) -> None:
    seat, person = await one.seat(), await one.person()
    async with agent(state, **single(one, seat)) as process:
        await process.greet("claude-code")
        await seated(one, seat)
        process.notify(METHOD, ASKED)
        process.notify(METHOD, ASKED)
        process.notify(METHOD, {**ASKED, "request_id": "fghij"})
        process.notify(METHOD, {**ASKED, "request_id": "kmnop"})
        items = {each["details"]["input_preview"]: each for each in await waiting(seat, 3)}
        assert list(items) == ["rm -r build"]
        first, second, third = sorted(await waiting(seat, 3), key=lambda each: str(each["approval_id"]))
        assert (first["source"], first["action"], first["reason"]) == ("relay", "permission:Bash", "clean up")

        # A question that waits holds up no other traffic.
        sent = await person.send(seat.id, "hello")
        assert (await process.next())["activity_id"] == sent["activity_id"]
        assert answers(process) == []

        await decided(one, first, "approve")
        await process.until(lambda one: len(answers(one)) == 1)
        await decided(one, second, "deny")
        await process.until(lambda one: len(answers(one)) == 2)
        await decided(one, third, "approve", details={"input_preview": "ls"})
        await process.until(lambda one: len(answers(one)) == 3)

        assert [each["behavior"] for each in answers(process)] == ["allow", "deny", "deny"]
        assert {each["request_id"] for each in answers(process)} == {"abcde", "fghij", "kmnop"}
        used = [each["used_at"] is not None for each in await waiting(seat, 2, "approved")]
        assert sorted(used) == [False, True]


@requirement("G16", "Q1")
async def test_a_decision_that_the_host_has_is_no_message_and_a_persons_note_is(one: Running, state: Path) -> None:
    seat = await one.seat()
    async with agent(state, **single(one, seat)) as process:
        await process.greet("claude-code")
        await seated(one, seat)
        for request_id, decision, more in (
            ("abcde", "approve", {}),
            ("fghij", "deny", {}),
            ("kmnop", "deny", {"note": "Use make clean."}),
            ("qrstu", "approve", {"details": {"input_preview": "ls"}}),
        ):
            process.notify(METHOD, {**ASKED, "request_id": request_id})
            (item,) = await waiting(seat)
            await decided(one, item, decision, **more)
            await process.until(partial(was_answered, request_id))
        messages = (await process.call("inbox_peek"))["messages"]

    assert [each["kind"] for each in messages] == ["approval_decision"] * 2
    texts = [each["text"] for each in messages]
    assert "about permission:Bash (denied):\n> Use make clean." in texts[0]
    assert "only with other details, so your call was denied" in texts[1]
    assert "Do exactly" not in "".join(texts)


@requirement("G16", "Q1")
async def test_what_nobody_has_decided_is_taken_back_when_the_host_ends(one: Running, state: Path) -> None:
    seat = await one.seat()
    async with agent(state, **single(one, seat)) as process:
        await process.greet("claude-code")
        process.notify(METHOD, ASKED)
        await waiting(seat)
        process.close()
        await process.ended()
        assert answers(process) == []

    (item,) = await waiting(seat, 1, "withdrawn")
    assert "has ended" in item["path"][-1]["note"]


@requirement("G16")
async def test_without_a_server_the_hosts_own_dialog_stays_and_the_log_says_so(one: Running, state: Path) -> None:
    seat = await one.seat()
    async with agent(state, **{**single(one, seat), "PLATFORM_URL": "http://127.0.0.1:9"}) as process:
        await process.greet("claude-code")
        process.notify(METHOD, ASKED)
        await process.hears("the host's own dialog stays")
        assert answers(process) == []


@requirement("G16", "G12")
async def test_an_agent_of_several_workspaces_relays_as_none_unless_one_is_named(one: Running, state: Path) -> None:
    ops, lead = await one.seat("Ops"), await one.seat("Lead")
    async with agent(state, **several((one, ops), (one, lead))) as process:
        greeting = await process.greet("claude-code")
        assert set(greeting["capabilities"]["experimental"]) == {"claude/channel"}
    async with agent(state, **several((one, ops), (one, lead)), MOLECULE_MCP_PERMISSIONS=lead.id) as process:
        await process.greet("claude-code")
        process.notify(METHOD, ASKED)
        await waiting(lead)
    assert (await ops.api.get(f"/workspaces/{ops.id}/approvals"))["approvals"] == []


@requirement("G6", "G16")
@pytest.mark.parametrize("wish", ["everybody", "0"])
async def test_a_workspace_that_is_none_of_its_own_is_refused_at_the_start(
    wish: str, one: Running, state: Path
) -> None:
    seat = await one.seat()
    async with agent(state, **single(one, seat), MOLECULE_MCP_PERMISSIONS=wish) as process:
        assert await process.ended() == 2
        assert "PERMISSIONS must be auto, off, or one of your workspaces" in process.said
