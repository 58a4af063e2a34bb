"""The one error table: complete, told to people, and every row of it seen from outside."""

import ast
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from molecule_core.api.errors import ERROR_MAPPINGS, JSON_RPC_ERRORS
from molecule_core.approvals import errors as approval_errors
from molecule_core.budgets import errors as budget_errors
from molecule_core.common import errors
from molecule_core.common.errors import MoleculeError, ReasonError, WireTextError
from molecule_core.common.limits import Limits
from molecule_core.delegations import errors as delegation_errors
from molecule_core.live_turns import errors as live_turn_errors
from molecule_core.memory import errors as memory_errors
from molecule_core.messages import errors as message_errors
from molecule_core.runners import errors as runner_errors
from molecule_core.schedules import errors as schedule_errors
from molecule_core.search import errors as search_errors
from molecule_core.threads import errors as thread_errors
from testing.clocks import FakeClock
from testing.mcp_clients import greeting, line_of, listening
from testing.raw_http import Reply, ask, request, wire
from testing.running_server import ADMIN_TOKEN, Running, Seat, running
from testing.upload_forms import place_of, upload
from testing.waits import eventually
from tests.api.http import rejected_approvals, rejected_threads
from tests.requirements import requirement

_ROOT = Path(__file__).resolve().parents[3]
_EVERY = {
    name: each
    for module in (
        *(errors, approval_errors, budget_errors, delegation_errors, live_turn_errors, memory_errors, message_errors),
        *(runner_errors, schedule_errors, search_errors, thread_errors),
    )
    for name, each in vars(module).items()
}
_CLASSES = {each for each in _EVERY.values() if isinstance(each, type) and issubclass(each, MoleculeError)}
# Said on a terminal, as one line and exit code 2, never by a server that runs.
COMMAND_LINE_ONLY = {
    errors.StateInUse,
    errors.SchemaTooNew,
    errors.BackupFailed,
    errors.BadSettings,
    errors.StartFailed,
    errors.StoreDamaged,
    errors.CommandFailed,
    errors.LoginLinkFailed,
    errors.PruneFailed,
}
NOT_FROM_OUTSIDE = {
    "unexpected": "takes a mistake of ours: shown with one planted, below",
    "platform_unavailable": "takes a store that fails: shown with one planted, below",
    "store_write_failed": "takes a disk that is full: shown in tests/cli/test_full_disk.py",
    "fetch_failed": "told of a push, never answered: every way to it in tests/network",
    "not_taken": "takes an agent that fails again and again: tests/messages/delivery/test_failures.py",
    "source_lost": "takes retention while an agent waits: tests/threads/test_log.py",
    "no_room": "takes a disk that is full: shown in tests/api/http/test_uploads.py",
    "files_unavailable": "takes a folder that fails: shown in tests/api/http/test_uploads.py",
}


@requirement("A3")
def test_every_refusal_has_a_row_or_belongs_to_the_command_line() -> None:
    assert _CLASSES - {MoleculeError, ReasonError, WireTextError} == ERROR_MAPPINGS.keys() | COMMAND_LINE_ONLY
    assert not ERROR_MAPPINGS.keys() & COMMAND_LINE_ONLY


@requirement("A3")
def test_what_the_command_line_alone_says_is_raised_nowhere_behind_http() -> None:
    names = {each.__name__ for each in COMMAND_LINE_ONLY}
    for folder in ("edges", "messages", "org", "access", "wire"):
        for file in (_ROOT / "src" / "molecule_core" / folder).glob("*.py"):
            used = {node.id for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Name)}
            assert not used & names, file


@requirement("A3")
def test_codes_are_unique_and_statuses_are_refusals() -> None:
    codes = [row.code for row in ERROR_MAPPINGS.values()]
    assert len(codes) == len(set(codes))
    assert all(re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", code) for code in codes)
    assert all(400 <= row.status < 600 for row in ERROR_MAPPINGS.values())
    assert all(
        row.rpc == -32700 or -32603 <= row.rpc <= -32600 or -32099 <= row.rpc <= -32000
        for row in ERROR_MAPPINGS.values()
    )
    assert set(JSON_RPC_ERRORS) <= ERROR_MAPPINGS.keys()


@requirement("A3")
def test_the_page_for_people_has_every_row_as_the_table_has_it() -> None:
    page = (_ROOT / "docs" / "reference" / "errors.md").read_text()
    told = dict(re.findall(r"^\| `(\w+)` \| (\d+ \| -\d+) \|", page, re.MULTILINE))
    assert told == {row.code: f"{row.status} | {row.rpc}" for row in ERROR_MAPPINGS.values()}
    for error in ERROR_MAPPINGS:
        assert error.template() in page


# -- every code, by the request that provokes it -----------------------------------------------------------------------


class World:
    """A server with small limits, and who is in it."""

    def __init__(self, server: Running, clock: FakeClock) -> None:
        self.server = server
        self.clock = clock
        self.peer: Seat
        self.seat: Seat

    async def fill(self) -> None:
        """Two siblings."""
        self.seat, self.peer = await self.server.seat("Seat"), await self.server.seat("Peer")

    async def ask(self, method: str, target: str, body: Any = None, *, token: str | None = ADMIN_TOKEN) -> Reply:
        """One request; the admin's, if nobody else is named. `{id}` is the seat."""
        return await ask(self.server.port, method, target.replace("{id}", self.seat.id), body, token=token)

    async def raw(self, data: bytes) -> Reply:
        """Bytes as they are."""
        async with wire(self.server.port) as connection:
            await connection.send(data)
            return await connection.reply()

    async def message(self, **fields: Any) -> Reply:
        """A message to the seat."""
        message = {"parts": [{"kind": "text", "text": "hello"}], **fields}
        return await self.ask("POST", "/workspaces/{id}/a2a", {"params": {"message": message}})


Provoke = Callable[[World], Awaitable[Reply]]


async def _empty_search(world: World) -> Reply:
    (org,) = (await world.ask("GET", "/orgs")).json
    return await world.ask("GET", f"/orgs/{org['id']}/search?q=%21")


async def _removed(world: World) -> Reply:
    await world.ask("DELETE", "/workspaces/{id}?confirm=true")
    return await world.message()


async def _with_a_child(world: World) -> Reply:
    await world.server.seat("Child", parent_id=world.seat.id)
    return await world.ask("DELETE", "/workspaces/{id}")


async def _twice(world: World) -> Reply:
    await world.message(messageId="one")
    return await world.message(messageId="one", parts=[{"kind": "text", "text": "something else"}])


async def _upload(world: World, content: bytes) -> Reply:
    return await upload(world.server, world.seat.id, ADMIN_TOKEN, ("a.png", content, "image/png"))


async def _no_picture(world: World) -> Reply:
    (file,) = (await _upload(world, b"no picture")).json["files"]
    return await world.ask("GET", f"{place_of(file)}/preview")


async def _too_many(world: World) -> Reply:
    return [await world.message() for _ in range(4)][-1]


async def _claimed(world: World) -> str:
    await world.message()
    (row,) = await world.seat.api.claim(world.seat.id, lease=1, wait=0)
    return str(row["id"])


async def _ack_of_an_old_attempt(world: World) -> Reply:
    activity_id = await _claimed(world)
    await world.clock.advance(2)
    assert await _claimed_again(world) == 2
    ack = {"activity_id": activity_id, "attempt": 1}
    return await world.ask("POST", "/workspaces/{id}/activity/ack", ack, token=world.seat.token)


async def _claimed_again(world: World) -> int:
    (row,) = await world.seat.api.claim(world.seat.id, lease=1, wait=0)
    return int(row["attempt"])


async def _ack_without_an_attempt(world: World) -> Reply:
    ack = {"activity_id": await _claimed(world)}
    return await world.ask("POST", "/workspaces/{id}/activity/ack", ack, token=world.seat.token)


async def _handle(world: World) -> str:
    """What answers the message that the seat has taken."""
    await _claimed(world)
    owed = await world.ask("GET", "/workspaces/{id}/obligations", token=world.seat.token)
    return str(owed.json["obligations"][0]["handle"])


async def _reply_to_what_is_answered(world: World) -> Reply:
    used = {"handle": await _handle(world), "text": "done"}
    await world.ask("POST", "/workspaces/{id}/notify", {"message": "done"}, token=world.seat.token)
    return await world.ask("POST", "/workspaces/{id}/reply", used, token=world.seat.token)


async def _answer_to_one_of_two_questions_of_a_peer(world: World) -> Reply:
    for text in ("how many?", "which colour?"):
        await world.peer.api.post(f"/workspaces/{world.seat.id}/a2a", {"params": {"message": {"content": text}}})
    await world.seat.api.claim(world.seat.id, wait=0)
    message = {"content": "seven", "metadata": {"intent": "inform"}}
    path = f"/workspaces/{world.peer.id}/a2a"
    return await world.ask("POST", path, {"params": {"message": message}}, token=world.seat.token)


async def _line_to_the_user_by_a_peers_handle(world: World) -> Reply:
    await world.peer.api.post(f"/workspaces/{world.seat.id}/a2a", {"params": {"message": {"content": "hello"}}})
    (row,) = await world.seat.api.claim(world.seat.id, wait=0)
    owed = await world.ask("GET", "/workspaces/{id}/obligations", token=world.seat.token)
    notice = {"message": f"re: {row['id']}", "reply_handle": owed.json["obligations"][0]["handle"]}
    return await world.ask("POST", "/workspaces/{id}/notify", notice, token=world.seat.token)


async def _sending_of_nothing(world: World) -> Reply:
    return await world.ask("POST", f"/workspaces/{{id}}/messages/{await _claimed(world)}/draft/send")


async def _loop(world: World) -> Reply:
    """One hop is allowed: the answer to an answer is one too many."""
    await world.message()
    await world.seat.api.claim(world.seat.id, wait=0)
    hello = {"params": {"message": {"content": "hello"}}}
    await world.seat.api.post(f"/workspaces/{world.peer.id}/a2a", hello)
    await world.peer.api.claim(world.peer.id, wait=0)
    return await world.ask("POST", "/workspaces/{id}/a2a", hello, token=world.peer.token)


async def _ended_twice(world: World) -> Reply:
    root_id = (await _loop(world)).json["root_id"]
    org = (await world.server.admin.get("/orgs"))[0]["id"]
    await world.ask("POST", f"/orgs/{org}/chains/{root_id}/end")
    return await world.ask("POST", f"/orgs/{org}/chains/{root_id}/end")


async def _after_the_end(world: World) -> Reply:
    root_id = (await _loop(world)).json["root_id"]
    org = (await world.server.admin.get("/orgs"))[0]["id"]
    await world.ask("POST", f"/orgs/{org}/chains/{root_id}/end")
    hello = {"params": {"message": {"content": "hello"}}}
    return await world.ask("POST", "/workspaces/{id}/a2a", hello, token=world.peer.token)


async def _to_two_others(world: World) -> Reply:
    await world.server.seat("Third")
    await world.server.let_broadcast(world.seat.id)
    return await world.ask("POST", "/workspaces/{id}/broadcast", {"message": "hello"})


async def _third_login(world: World) -> Reply:
    return [await world.ask("POST", "/login", {"code": "nothing"}, token=None) for _ in range(3)][-1]


async def _link_of_another_person(world: World) -> Reply:
    org_id = world.server.server.registry.orgs()[0].id
    cookie, reply = "", Reply(0, {}, b"")
    for name in ("Ann", "Bob"):
        person = await world.ask("POST", f"/orgs/{org_id}/people", {"name": name, "role": "viewer"})
        link = await world.ask("POST", f"/orgs/{org_id}/login-links", {"person_id": person.json["id"]})
        code = link.json["url"].partition("#login=")[2]
        headers = {"X-Molecule-Client": "canvas", "Cookie": cookie}
        reply = await ask(world.server.port, "POST", "/login", {"code": code}, headers=headers)
        cookie = reply.headers.get("set-cookie", "").partition(";")[0]
    return reply


async def _requeue_of_what_was_discarded(world: World) -> Reply:
    params = {"message": {"parts": [{"kind": "text", "text": "hello"}]}, "expires_in_seconds": 1}
    sent = await world.ask("POST", "/workspaces/{id}/a2a", {"params": params})
    await world.clock.advance(2)
    letter = f"/workspaces/{{id}}/dead-letters/{sent.json['activity_id']}"

    async def discarded() -> int:
        return (await world.ask("DELETE", letter)).status

    await eventually(discarded, lambda status: status == 200)
    return await world.ask("POST", f"{letter}/requeue")


async def _grandchild(world: World) -> Reply:
    child = await world.server.seat("Child", parent_id=world.seat.id)
    grandchild = await world.server.seat("Grandchild", parent_id=child.id)
    return await world.ask("GET", f"/registry/discover/{world.peer.id}", token=grandchild.token)


async def _agent_of_another_runner(world: World) -> Reply:
    org, seat = (await world.server.admin.get("/orgs"))[0]["id"], await world.server.seat("Shop")
    start = {"action": "start", "workspace_id": seat.id, "kind": "claude", "folder": "/srv"}
    installed = [{"kind": "claude", "title": "Claude Code", "version": "2"}]
    runners = [await world.server.admin.post(f"/orgs/{org}/runners", {"name": "Laptop"}) for _ in range(2)]
    for each in runners:
        await world.server.api(each["token"]).post("/runner/report", {"installed": installed})
    await world.server.admin.post(f"/orgs/{org}/runners/{runners[0]['id']}/requests", start)
    await world.server.api(runners[0]["token"]).post("/runner/claim", {})
    return await world.ask("POST", f"/orgs/{org}/runners/{runners[1]['id']}/requests", start)


async def _one_connection_too_many(world: World) -> Reply:
    async with contextlib.AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(wire(world.server.port)) for _ in range(9)]
        return await opened[-1].reply()


async def _one_mcp_session_too_many(world: World) -> Reply:
    line = line_of(world.server, world.seat)
    await line.begin()
    async with listening(line):
        return await line.post(greeting())


async def _viewer(world: World) -> Reply:
    org = (await world.server.admin.get("/orgs"))[0]["id"]
    person = await world.server.admin.post(f"/orgs/{org}/people", {"name": "Viewer", "role": "viewer"})
    return await world.ask("POST", "/workspaces", {"name": "x"}, token=person["auth_token"])


async def _twin_org(world: World) -> Reply:
    await world.server.org("Twin")
    return await world.ask("POST", "/orgs", {"name": "Twin"})


async def _silenced(world: World) -> Reply:
    await world.ask("PATCH", "/workspaces/{id}/abilities", {"talk_to_user_enabled": False})
    return await world.ask("POST", "/workspaces/{id}/notify", {"message": "hi"}, token=world.seat.token)


async def _not_asleep(world: World) -> Reply:
    await world.ask("POST", "/workspaces/{id}/pause")
    return await world.ask("POST", "/workspaces/{id}/hibernate")


async def _one_token_too_many(world: World) -> Reply:
    return [await world.ask("POST", "/workspaces/{id}/tokens") for _ in range(4)][-1]


async def _last_owner(world: World) -> Reply:
    org = (await world.server.admin.get("/orgs"))[0]["id"]
    person = await world.server.admin.post(f"/orgs/{org}/people", {"name": "Owner", "role": "owner"})
    return await world.ask("DELETE", f"/orgs/{org}/people/{person['id']}")


async def _of_another_workspace(world: World) -> Reply:
    headers = {"X-Workspace-ID": world.peer.id, "Authorization": f"Bearer {world.seat.token}"}
    return await ask(world.server.port, "GET", f"/workspaces/{world.seat.id}", headers=headers)


async def _for_all_from_below(world: World) -> Reply:
    child = await world.server.seat("Child", parent_id=world.seat.id)
    body = {"content": "hello", "scope": "GLOBAL"}
    return await world.ask("POST", f"/workspaces/{child.id}/memories", body, token=child.token)


async def _what_a_peer_remembers(world: World) -> Reply:
    path, body = f"/workspaces/{world.peer.id}/memories", {"content": "hello", "scope": "TEAM"}
    memory = await world.ask("POST", path, body, token=world.peer.token)
    return await world.ask("DELETE", f"/workspaces/{{id}}/memories/{memory.json['id']}", token=world.seat.token)


_TEMPLATE = "/cp/admin/workspace/{id}/instruction-template"


def _templates(world: World) -> str:
    return f"/orgs/{world.server.server.registry.orgs()[0].id}/instruction-templates"


async def _template(world: World, template_id: str) -> Reply:
    return await world.ask("POST", _templates(world), {"id": template_id, "parts": {}})


async def _delete_of_a_chosen_template(world: World) -> Reply:
    await _template(world, "terse")
    await world.ask("POST", _TEMPLATE, {"template_id": "terse"})
    return await world.ask("DELETE", f"{_templates(world)}/terse")


async def _budget(world: World, seat: Seat) -> Reply:
    org = (await world.server.admin.get("/orgs"))[0]["id"]
    body = {"scope": "workspace", "target_id": seat.id, "unit": "tokens", "limit": 10}
    return await world.ask("POST", f"/orgs/{org}/budgets", body)


async def _same_budget_twice(world: World) -> Reply:
    await _budget(world, world.seat)
    return await _budget(world, world.seat)


async def _turn_over_budget(world: World) -> Reply:
    await _budget(world, world.seat)
    await rejected_threads.first_turn_begun(world)
    reply: Reply = await rejected_threads.first_turn_begun(world)
    return reply


async def _one_budget_too_many(world: World) -> Reply:
    await _budget(world, world.seat)
    return await _budget(world, world.peer)


async def _schedule(world: World, name: str) -> Reply:
    org = (await world.server.admin.get("/orgs"))[0]["id"]
    body = {"name": name, "target_id": world.seat.id, "cron": "0 8 * * *", "text": "Report."}
    return await world.ask("POST", f"/orgs/{org}/schedules", body)


async def _same_schedule_twice(world: World) -> Reply:
    await _schedule(world, "Report")
    return await _schedule(world, "Report")


async def _one_schedule_too_many(world: World) -> Reply:
    await _schedule(world, "Report")
    return await _schedule(world, "Summary")


async def _one_template_too_many(world: World) -> Reply:
    await _template(world, "terse")
    return await _template(world, "wordy")


async def _delegated(world: World, source: Seat, target: Seat, task: str = "sort the mail") -> Reply:
    body = {"target_id": target.id, "task": task}
    return await world.ask("POST", f"/workspaces/{source.id}/delegate", body, token=source.token)


async def _delegated_outside_its_scope(world: World) -> Reply:
    body = {"target_id": world.peer.id, "task": "sort the mail", "may": {"depth": 0}}
    await world.ask("POST", f"/workspaces/{world.seat.id}/delegate", body, token=world.seat.token)
    await world.peer.api.claim(world.peer.id, wait=0)
    return await _delegated(world, world.peer, world.seat, "and file it")


async def _retry_of_what_is_open(world: World) -> Reply:
    given = (await _delegated(world, world.seat, world.peer)).json["delegation_id"]
    return await world.ask("POST", f"/workspaces/{{id}}/delegations/{given}/retry", token=world.seat.token)


async def _end_of_what_is_not_its_own(world: World) -> Reply:
    given = (await _delegated(world, world.seat, world.peer)).json["delegation_id"]
    path = f"/workspaces/{{id}}/delegations/{given}/update"
    return await world.ask("POST", path, {"status": "completed", "result": "sorted"}, token=world.seat.token)


async def _delegated_back(world: World, task: str = "sort the mail") -> Reply:
    await _delegated(world, world.seat, world.peer)
    await world.peer.api.claim(world.peer.id, wait=0)
    return await _delegated(world, world.peer, world.seat, task)


async def _one_memory_too_many(world: World) -> Reply:
    await world.ask("POST", "/workspaces/{id}/memories", {"content": "one"})
    return await world.ask("POST", "/workspaces/{id}/memories", {"content": "two"})


async def _a_value_too_large_for_the_organisation(world: World) -> Reply:
    return await world.ask("POST", "/workspaces/{id}/memory", {"key": "large", "value": "x" * 300})


async def _files_beyond_the_quota(world: World) -> Reply:
    await _upload(world, b"x" * 400)
    return await _upload(world, b"x" * 400)


async def _shared_by_a_sibling(world: World) -> Reply:
    return await world.ask("GET", "/workspaces/{id}/shared-context", token=world.peer.token)


def _from_our_page(body: Any) -> Provoke:
    return lambda world: ask(world.server.port, "POST", "/login", body, headers={"X-Molecule-Client": "canvas"})


def _raw(data: bytes) -> Provoke:
    return lambda world: world.raw(data)


def _simple(method: str, target: str, body: Any = None, token: str | None = ADMIN_TOKEN) -> Provoke:
    return lambda world: world.ask(method, target, body, token=token)


PROVOKED: dict[str, Provoke] = {
    "invalid_json": _simple("POST", "/orgs", b"{"),
    "json_too_deep": _simple("POST", "/orgs", b"[" * 100 + b"]" * 100),
    "body_too_large": _simple("POST", "/orgs", b" " * 3000),
    "body_too_slow": _raw(request("POST", "/orgs", token=ADMIN_TOKEN, headers={"Content-Length": "9"})),
    "headers_too_large": _simple("GET", "/health?" + "a" * 3000),
    "headers_too_slow": _raw(b"GET /health HTTP/1.1\r\n"),
    "bad_http": _raw(b"hello\r\n\r\n"),
    "wrong_host": _raw(request("GET", "/app", headers={"Host": "evil.example"})),
    "not_found": _simple("GET", "/workspaces/nobody"),
    "no_such_route": _simple("GET", "/nope"),
    "method_not_allowed": _simple("PUT", "/orgs"),
    "invalid_field": _simple("POST", "/orgs", {"name": 1}),
    "missing_credential": _simple("GET", "/orgs", token=None),
    "invalid_credential": _simple("GET", "/orgs", token="nobody"),
    "invalid_login": _from_our_page({"code": "nothing"}),
    "other_session": _link_of_another_person,
    "cross_origin": _simple("POST", "/login", {"code": "nothing"}, None),
    "websocket_needed": _simple("GET", "/ws"),
    "credential_not_accepted": lambda world: world.ask("GET", "/orgs", token=world.seat.token),
    "token_of_other_workspace": lambda world: world.ask(
        "POST", "/registry/heartbeat", {"workspace_id": "nobody"}, token=world.seat.token
    ),
    "role_too_low": _viewer,
    "invalid_caller": _of_another_workspace,
    "may_not_talk": _grandchild,
    "invalid_name": _simple("POST", "/orgs", {"name": "\u202e"}),
    "invalid_parent": _simple("POST", "/workspaces", {"name": "x", "parent_id": "nobody"}),
    "org_exists": _twin_org,
    "url_missing": _simple("POST", "/workspaces", {"name": "x", "delivery_mode": "push"}),
    "unsafe_url": _simple("POST", "/workspaces", {"name": "x", "url": "http://127.0.0.1/"}),
    "workspace_removed": _removed,
    "confirmation_required": _with_a_child,
    "status_forbids": _not_asleep,
    "too_many_tokens": _one_token_too_many,
    "last_owner": _last_owner,
    "invalid_message": lambda world: world.message(parts=[]),
    "unknown_method": _simple("POST", "/workspaces/{id}/a2a", {"method": "message/recall"}),
    "message_id_reused": _twice,
    "inbox_full": _too_many,
    "over_budget": _turn_over_budget,
    "budget_exists": _same_budget_twice,
    "too_many_budgets": _one_budget_too_many,
    "schedule_exists": _same_schedule_twice,
    "too_many_schedules": _one_schedule_too_many,
    "invalid_upload": _simple("POST", "/workspaces/{id}/chat/uploads"),
    "file_too_large": lambda world: _upload(world, b"x" * 501),
    "no_preview": _no_picture,
    "chain_frozen": _loop,
    "chain_ended": _after_the_end,
    "chain_not_frozen": _ended_twice,
    "broadcast_disabled": _simple("POST", "/workspaces/{id}/broadcast", {"message": "hello"}),
    "broadcast_too_wide": _to_two_others,
    "rate_limited": _third_login,
    "talk_to_user_disabled": _silenced,
    "empty_search": _empty_search,
    "cursor_gone": _simple("GET", "/workspaces/{id}/activity?since_id=nobody"),
    "scope_forbidden": _for_all_from_below,
    "memory_of_another": _what_a_peer_remembers,
    "too_many_kept": _one_memory_too_many,
    "memory_full": _a_value_too_large_for_the_organisation,
    "storage_full": _files_beyond_the_quota,
    "shared_with_children": _shared_by_a_sibling,
    "no_prompt_yet": _simple("GET", "/workspaces/{id}/prompt"),
    "version_mismatch": _simple("POST", "/workspaces/{id}/memory", {"key": "k", "value": 1, "if_match_version": 2}),
    "invalid_template": _simple("POST", _TEMPLATE, {"inline_template": "{{ kind.__class__ }}"}),
    "not_one_template": _simple("POST", _TEMPLATE, {}),
    "template_in_use": _delete_of_a_chosen_template,
    "too_many_templates": _one_template_too_many,
    "self_delegation": lambda world: _delegated(world, world.seat, world.seat),
    "delegation_open": _retry_of_what_is_open,
    "outside_scope": _delegated_outside_its_scope,
    "not_the_worker": _end_of_what_is_not_its_own,
    "delegation_cycle": _delegated_back,
    "delegation_limit": lambda world: _delegated_back(world, "and file it"),
    "stale_attempt": _ack_of_an_old_attempt,
    "unknown_handle": lambda world: world.ask(
        "POST", "/workspaces/{id}/reply", {"handle": "m1-00000", "text": "done"}, token=world.seat.token
    ),
    "stale_handle": _reply_to_what_is_answered,
    "ambiguous_reply": _answer_to_one_of_two_questions_of_a_peer,
    "handle_of_another": _line_to_the_user_by_a_peers_handle,
    "no_draft": _sending_of_nothing,
    "not_dead": _requeue_of_what_was_discarded,
    "attempt_missing": _ack_without_an_attempt,
    "server_busy": _one_connection_too_many,
    "agent_has_runner": _agent_of_another_runner,
    "turn_not_running": lambda world: world.ask("POST", "/workspaces/{id}/live/stop", {"activity_id": "none"}),
    "too_many_open": _one_mcp_session_too_many,
    **rejected_approvals.PROVOKED,
    **rejected_threads.PROVOKED,
}


@pytest.fixture
async def world(tmp_path: Path, clock: FakeClock) -> AsyncIterator[World]:
    """A small server."""
    limits = Limits(
        body_bytes=2000,
        header_bytes=2000,
        header_seconds=1,
        body_seconds=1,
        inbox_unhandled=3,
        memories=1,
        org_memory_bytes=200,
        workspace_file_bytes=600,
        templates=1,
        budgets=1,
        schedules=1,
        connections=8,
        attachment_bytes=500,
        chain_hops=1,
        broadcast_most=1,
        logins_per_minute=2,
        live_tokens=4,
        mcp_sessions=1,
        delegation_depth=1,
        approvals_open=1,
        approval_questions=1,
        thread_queue=2,
    )
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path, clock=clock, limits=limits) as server:
        world = World(server, clock)
        await world.fill()
        yield world


@requirement("A3")
def test_every_row_is_provoked_or_there_is_a_reason_why_not() -> None:
    assert PROVOKED.keys() | NOT_FROM_OUTSIDE.keys() == {row.code for row in ERROR_MAPPINGS.values()}
    assert not PROVOKED.keys() & NOT_FROM_OUTSIDE.keys()


@requirement("A3", "M15")
@pytest.mark.parametrize("code", PROVOKED)
async def test_a_refusal_is_as_its_row_says_and_tells_what_to_do(world: World, code: str) -> None:
    (row,) = [each for each in ERROR_MAPPINGS.values() if each.code == code]
    reply = await PROVOKED[code](world)
    if "jsonrpc" in reply.json:
        assert (reply.json["error"]["code"], reply.json["error"]["data"][0]["reason"]) == (row.rpc, code.upper())
        assert reply.status == row.status
        return
    assert (reply.status, reply.json["code"]) == (row.status, code)
    # Clients of the original read `status: confirmation_required`, so there the name stands in the number's place.
    assert reply.json["status"] == (code if code == "confirmation_required" else row.status)
    assert reply.json["detail"] == reply.error
    # Where existing clients read one word, the hint beside it is what people read.
    words = f"{reply.error} {reply.json.get('hint', '')}"
    assert len(words.split()) >= 2 and re.search(r"\{\w+\}", words) is None
    assert ("retry-after" in reply.headers) == ("retry_after" in reply.json)
    # To wait does not make a tree of delegations or of threads smaller.
    assert ("retry-after" in reply.headers) or row.status != 429 or code in ("delegation_limit", "thread_limit")
    assert ("www-authenticate" in reply.headers) == (row.status == 401)


@requirement("A3", "O3")
async def test_a_mistake_of_ours_is_a_reference_outside_and_a_trace_in_the_log(
    plain: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise LookupError("a secret of the inside: SELECT * FROM tokens")

    monkeypatch.setattr("molecule_core.api.org.orgs._org_view", broken)
    reply = await ask(plain.port, "GET", "/orgs", token=ADMIN_TOKEN)
    assert (reply.status, reply.json["code"]) == (500, "unexpected")
    (record,) = [each for each in caplog.records if each.name == "molecule.http"]
    assert record.__dict__["reference"] in reply.error
    assert "a secret of the inside" in caplog.text
    assert not re.search(r"secret|SELECT|Traceback|\.py|LookupError", reply.body.decode())


@requirement("A3")
async def test_a_store_that_fails_is_said_to_be_unavailable_for_a_moment(
    plain: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise apsw.IOError("disk I/O error: a secret of the inside")

    with monkeypatch.context() as patch:
        patch.setattr(plain.server.store, "_fetch", broken)
        reply = await ask(plain.port, "GET", "/ready")
        assert (await ask(plain.port, "GET", "/health")).status == 200
    assert (reply.status, reply.json["code"], reply.headers["retry-after"]) == (503, "platform_unavailable", "5")
    assert b"secret" not in reply.body
    assert (await ask(plain.port, "GET", "/ready")).status == 200
