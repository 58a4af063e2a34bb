"""Real programs behind bridges, unattended: what a delegation may do, its checks, what a turn used, and budgets."""

import contextlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from molecule_core.client.api import ApiClient
from testing.processes import MOLECULE, Process, started
from testing.running_server import Running, Seat, running
from tests.interop.bridged import RememberingMind, seen
from tests.interop.host_requirements import require
from tests.interop.hosts import CLAUDE, CLAUDE_OLDER, CODEX_CLI, Home, RealHost, outside_world
from tests.interop.model_endpoint import Endpoint, listening
from tests.interop.model_protocols import Messages, Responses
from tests.interop.model_scripts import Act, Asked, Call
from tests.requirements import requirement

pytestmark = pytest.mark.long
DENIAL = "is outside what this work may do"
_TRIES = 10


class Program(NamedTuple):
    """A program behind a bridge. `bridge`: what starts it; `run`: the call by which its model runs a command with the
    `tool`; `usage`: how its vendor states USED; `unasked`: flags with which it asks for as little as it can."""

    host: RealHost
    bridge: tuple[str, ...]
    run: Callable[[str], Call]
    tool: str
    usage: dict[str, Any]
    unasked: tuple[str, ...] = ()


def _run_by_claude(command: str) -> Call:
    return Call("Bash", {"command": command, "description": "as asked"})


def _run_by_codex(command: str) -> Call:
    # It waits for the end of the command for so long; then it would only tell that it still runs.
    return Call("exec_command", {"cmd": command, "yield_time_ms": 30_000})


USED = {"input_tokens": 100, "cached_tokens": 40, "output_tokens": 7}
"""What each request to a model uses."""
_ANTHROPIC = {"input_tokens": 100, "cache_read_input_tokens": 40, "output_tokens": 7}
_OPENAI = {
    **{"input_tokens": 140, "input_tokens_details": {"cached_tokens": 40}, "total_tokens": 147},
    **{"output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 0}},
}
_SKIPPING = ("--permission-mode", "bypassPermissions", "--allow-skipping-permissions")
CLAUDE_PROGRAM = Program(CLAUDE, ("claude",), _run_by_claude, "Bash", _ANTHROPIC, _SKIPPING)
PROGRAMS = (
    CLAUDE_PROGRAM,
    CLAUDE_PROGRAM._replace(host=CLAUDE_OLDER),
    Program(CODEX_CLI, ("codex",), _run_by_codex, "shell", _OPENAI),
)


@pytest.fixture(params=PROGRAMS, ids=lambda each: each.host.pinned.name)
def program(request: pytest.FixtureRequest) -> Program:
    """Each program in turn."""
    require(request.param.host)
    found: Program = request.param
    return found


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    """A server with instructions, as it is by default."""
    state = tmp_path / "server"
    state.mkdir()
    async with running("sqlite", str(state / "molecule.db"), state, push_instructions_enabled=True) as server:
        yield server


class Company(NamedTuple):
    """A lead that delegates, a workspace whose agent is a real program, and the model of that."""

    server: Running
    lead: Seat
    ops: Seat
    home: Home
    mind: RememberingMind
    bridge: Process

    async def delegate(self, mark: str, **more: Any) -> str:
        """The lead delegates a task; its id."""
        body = {"target_id": self.ops.id, "task": f"What about ask-{mark}-ask?", **more}
        begun = await self.lead.api.post(f"/workspaces/{self.lead.id}/delegate", body)
        return str(begun["delegation_id"])

    async def detail(self, task: str) -> dict[str, Any]:
        """A delegation."""
        found: dict[str, Any] = await self.lead.api.get(f"/delegations/{task}")
        return found

    async def ended(self, task: str) -> dict[str, Any]:
        """A delegation once it has ended."""
        return await seen(lambda: self.detail(task), lambda found: found["delegation"]["settled_at"])


@contextlib.asynccontextmanager
async def company(server: Running, program: Program, folder: Path, *flags: str, **more: str) -> AsyncIterator[Company]:
    """A company with this program, until the block ends."""
    home, dialect = Home(folder / "home"), program.host.dialect()
    assert isinstance(dialect, Messages | Responses)
    dialect.usage = program.usage
    endpoint = Endpoint(dialect)
    home.project.mkdir(parents=True)
    mind = endpoint.mind = RememberingMind()
    lead, ops = await server.seat("Lead"), await server.seat("Ops")
    state = home.path / "bridge"
    state.mkdir(mode=0o700)
    token = state / "token"
    token.write_text(ops.token)
    token.chmod(0o600)
    async with listening(endpoint):
        program.host.settle(home, endpoint)
        (path,) = program.host.pinned.command()
        own = {
            "WORKSPACE_ID": ops.id,
            "MOLECULE_WORKSPACE_TOKEN_FILE": str(token),
            "PLATFORM_URL": server.url,
            "CONFIGS_DIR": str(state),
        }
        person = {"PATH": os.defpath, "LANG": "C.UTF-8", "TERM": "dumb", **outside_world(home, endpoint)}
        env = {**person, **program.host.variables(home, endpoint), **own, **more}
        command = (MOLECULE, "bridge", *program.bridge, "--program", path, "--cwd", str(home.project), *flags)
        async with started(*command, env=env, cwd=home.project) as process:
            yield Company(server, lead, ops, home, mind, process)
    assert endpoint.strangers == []


# -- what a delegation may do ------------------------------------------------------------------------------------------


def _acts_and_says_why_not(program: Program, command: str) -> Callable[[Asked], Act]:
    """The model runs a command, and repeats why it was denied if it was told."""

    def act(asked: Asked) -> Act:
        # The sandbox of Codex sometimes fails on a machine that runs several at once; its model tries again then.
        if not asked.results or ("exited with code 1" in asked.results[-1].text and len(asked.results) < _TRIES):
            return program.run(command)
        is_told = DENIAL in f"{asked.said} {asked.results[-1].text}"
        return f"it said: {DENIAL}" if is_told else f"I was not told why: {asked.results[-1].text}"

    return act


@requirement("AU4", "G17")
async def test_a_tool_outside_what_the_task_may_do_is_denied_and_the_task_still_answers(
    server: Running, program: Program, tmp_path: Path
) -> None:
    """No person is asked, also in a mode in which the program needs no permission."""
    person = await server.person("operator")
    async with company(server, program, tmp_path, *program.unasked, IS_SANDBOX="1") as found:
        found.mind.acts_on = {
            "t0": _acts_and_says_why_not(program, "touch denied.txt"),
            "t1": _acts_and_says_why_not(program, "touch allowed.txt"),
        }
        denied = await found.ended(await found.delegate("t0", may={"tools": ["Read"]}))
        asked = await _pending(person)
        allowed = await _ended_with_approvals(found, await found.delegate("t1", may={"tools": [program.tool]}), person)
    assert (denied["delegation"]["status"], denied["result"]) == ("completed", f"it said: {DENIAL}"), found.bridge.said
    assert allowed["result"].startswith("I was not told why"), allowed["result"]
    made = [(found.home.project / name).exists() for name in ("denied.txt", "allowed.txt")]
    assert (made, asked) == ([False, True], []), allowed["result"]
    (first, *_) = found.mind.asked
    assert "It lists what it may use." in first.said and "- tools: Read, and those that answer it" in first.said


async def _ended_with_approvals(found: Company, task: str, person: ApiClient) -> dict[str, Any]:
    """A delegation once it has ended. A Codex whose sandbox does not work here asks whether it may do without."""

    async def look() -> dict[str, Any]:
        for each in await _pending(person):
            path = f"/workspaces/{found.ops.id}/approvals/{each['approval_id']}/decide"
            await person.post(path, {"decision": "approve"})
        return await found.detail(task)

    return await seen(look, lambda detail: detail["delegation"]["settled_at"])


# -- checks ------------------------------------------------------------------------------------------------------------


@requirement("D20", "G17")
async def test_an_answer_that_fails_its_check_comes_back_and_the_second_one_passes(
    server: Running, program: Program, tmp_path: Path
) -> None:
    def act(asked: Asked) -> Act:
        return "The total is 42." if 'does not contain "42"' in asked.said else "It is all done."

    async with company(server, program, tmp_path) as found:
        found.mind.acts_on = {"c0": act}
        task = await found.delegate("c0", accept=[{"type": "text", "contains": "42"}], rounds=1)
        detail = await found.ended(task)
        (result,) = [row for row in await found.lead.api.claim(found.lead.id) if row["kind"] == "delegation_result"]
    item = detail["delegation"]
    assert (item["status"], item["verified"], detail["result"]) == ("completed", True, "The total is 42.")
    facts = [each["fact"] for each in detail["timeline"]]
    assert facts[-4:] == ["submitted", "needs_work", "submitted", "proven"] or "needs_work" in facts, facts
    assert [each["outcome"] for each in detail["acceptance"]["evidence"]] == ["failed", "passed"]
    assert "not verified" not in str(result)


# -- usage and budgets -------------------------------------------------------------------------------------------------


@requirement("US1", "US2", "G17")
async def test_what_a_turn_used_arrives_with_its_tokens_chain_and_delegation(
    server: Running, program: Program, tmp_path: Path
) -> None:
    async with company(server, program, tmp_path) as found:
        found.mind.acts_on = {"u0": lambda asked: "Nothing to do."}
        task = await found.delegate("u0")
        detail = await found.ended(task)
        org = (await server.admin.get("/orgs"))[0]["id"]

        async def by(grouping: str) -> list[dict[str, Any]]:
            rows: list[dict[str, Any]] = (await server.admin.get(f"/orgs/{org}/usage", by=grouping))["rows"]
            return rows

        (agent,) = await seen(lambda: by("agent"), bool)
        (request,) = await by("request")
        (record,) = await server.server.usage.reader.list_of_chain(org, detail["delegation"]["root_id"], 10)
        requests = len(found.mind.asked)
    used = {name: count * requests for name, count in USED.items()}
    for row in (agent, request):
        assert {name: row[name] for name in used} == used, found.bridge.said
    assert (agent["key"], agent["turns"], request["key"]) == (found.ops.id, 1, task)
    assert (record.delegation_id, record.root_id, record.activity_id) == (task, task, task)
    assert record.model


@requirement("B2", "G17")
async def test_a_budget_that_is_used_up_holds_the_next_turn_until_a_person_raises_it(
    server: Running, program: Program, tmp_path: Path
) -> None:
    person = await server.person("operator")
    async with company(server, program, tmp_path) as found:
        org = (await server.admin.get("/orgs"))[0]["id"]
        each = sum(USED.values())
        await person.call("PUT", f"/workspaces/{found.ops.id}/turn-lease", body={"money": 1, "tokens": each})
        wanted = {"scope": "workspace", "target_id": found.ops.id, "unit": "tokens", "period": "day", "limit": each}
        budget = await person.post(f"/orgs/{org}/budgets", wanted)
        first = await found.ended(await found.delegate("b0"))
        second = await found.delegate("b1")
        (asked,) = await seen(lambda: _pending(person), bool)
        begun = [mark for mark in found.mind.answered if mark == "b1"]
        waiting = await found.detail(second)
        path = f"/workspaces/{found.ops.id}/approvals/{asked['approval_id']}/decide"
        await person.post(path, {"decision": "approve"})
        after = await found.ended(second)
        await seen(lambda: _spent(person, org, budget["budget_id"]), lambda spent: spent == 2 * each)
    assert (asked["action"], begun, waiting["delegation"]["settled_at"]) == ("raise_budget", [], None)
    assert [each["result"] for each in (first, after)] == ["answer b0; known: 1", "answer b1; known: 1"]


async def _pending(person: ApiClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await person.get("/approvals/pending"))["approvals"]
    return found


async def _spent(person: ApiClient, org: str, budget: str) -> int:
    return int((await person.get(f"/orgs/{org}/budgets/{budget}"))["spent"])
