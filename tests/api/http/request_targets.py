"""A valid request for every route that reads a body: what a hostile one differs from in one thing alone."""

import itertools
from typing import Any, NamedTuple

from molecule_core.api.routing import RUNNER, WORKSPACE, Route
from testing.raw_http import Reply, ask
from testing.running_server import ADMIN_TOKEN, Running, Seat

_numbers = itertools.count(1)

ELSEWHERE = {
    "/login": "takes a code that is good once, from our own page: tests/access/test_sessions.py",
    "/orgs/{org_id}/chains/{root_id}/release": "takes a frozen chain: tests/messages/chains/test_chains.py",
    "/workspaces/{id}/messages/{activity_id}/draft/send": "takes a draft, once: tests/messages/obligations/",
    "/orgs/{org_id}/instruction-templates/{template_id}/canary": "takes a version not in force: tests/instructions/",
    "/mcp": "speaks JSON-RPC: tests/api/mcp/",
    "/workspaces/{id}/mcp": "speaks JSON-RPC: tests/api/mcp/",
    "/workspaces/{id}/chat/uploads": "takes a form: tests/api/http/test_uploads.py",
    "/workspaces/{id}/approvals/{approval_id}/answer": "takes a question, once: tests/approvals/",
    "/workspaces/{id}/approvals/{approval_id}/use": "takes an approval, once: tests/approvals/",
    "/workspaces/{id}/approvals/{approval_id}/withdraw": "takes a request, once: tests/approvals/",
    "/orgs/{org_id}/schedules": "creates a schedule, once: tests/schedules/",
    "/orgs/{org_id}/schedules/{schedule_id}": "changes a schedule that is there: tests/schedules/",
    "/orgs/{org_id}/schedules/{schedule_id}/paused": "changes a schedule that is there: tests/schedules/",
    "/orgs/{org_id}/budgets": "creates a budget, once: tests/budgets/",
    "/orgs/{org_id}/budgets/{budget_id}": "changes a budget that is there: tests/budgets/",
    "/workspaces/{id}/external/rotate": "ends the token that others use here: tests/access/test_tokens.py",
}
A2A_REST = ("message:send", "message:stream", "tasks/{task_id}", "tasks/{task_id}/pushNotificationConfigs")
"""Routes of A2A that read a body by hand."""
ELSEWHERE |= dict.fromkeys(
    (f"/oauth/{each}" for each in ("consent", "login", "token", "revoke", "register")),
    "takes a form, or JSON of a standard: tests/access/test_oauth_consent.py, test_oauth_grants.py",
)
ELSEWHERE |= dict.fromkeys(
    (f"/workspaces/{{id}}/a2a/{each}" for each in A2A_REST),
    "speaks A2A: tests/api/a2a/",
)
ELSEWHERE["/a2a/push/{workspace_id}/{activity_id}"] = "reads no body: tests/a2a_agents/test_notifications.py"
ELSEWHERE["/runner/requests/{request_id}/confirm"] = "takes a claimed request, once: tests/runners/"
BODYLESS = {
    "/orgs/{org_id}/sample-team",
    "/threads/{thread_id}/compact",
    "/admin/prune",
    "/logout",
    "/orgs/{org_id}/chains/{root_id}/end",
    "/orgs/{org_id}/people/{person_id}/tokens",
    "/workspaces/{id}/dead-letters/{activity_id}/requeue",
    "/workspaces/{id}/pending-uploads/{file_id}/ack",
    "/workspaces/{id}/messages/{activity_id}/draft/discard",
    "/workspaces/{id}/delegations/{delegation_id}/retry",
    *(f"/workspaces/{{id}}/{act}" for act in ("pause", "resume", "hibernate", "collapse", "tokens")),
}
"""Commands that need no body, and read none."""


class Target(NamedTuple):
    """A route that reads JSON, with its placeholders filled and a credential that it takes."""

    route: Route
    path: str
    token: str
    seat: Seat
    port: int
    owed: list["Owed"]
    """Messages of its user that the seat was handed."""
    done: "Done"

    @property
    def name(self) -> str:
        """How the route is called in a failure."""
        return f"{self.route.method} {self.route.path}"

    def valid(self) -> dict[str, Any]:
        """A body that the route takes."""
        return valid_body(self.route, self.seat, self.owed, self.done)

    async def ask(self, body: Any) -> Reply:
        """Sends a body, of bytes or as JSON, on a connection of its own."""
        return await ask(self.port, self.route.method, self.path, body, token=self.token)


async def json_targets(server: Running) -> list[Target]:
    """Every route that reads JSON, all about one seat."""
    seat = await server.seat("Target")
    await server.let_broadcast(seat.id)
    org = (await server.admin.get("/orgs"))[0]["id"]
    person = await server.admin.post(f"/orgs/{org}/people", {"name": "Somebody"})
    owed, done = await _owed(server, seat), await _done(server, seat)
    approval = await _to_decide(server, seat)
    runner = await _runner(server, org, seat)
    told = {"sections": [], "trigger": {"kind": "start"}, "hash": "0", "tokens": 0, "budget": 1}
    await seat.api.call("PUT", f"/workspaces/{seat.id}/prompt", body=told)
    return [
        Target(
            route=route,
            path=_filled(
                route.path,
                id=seat.id,
                org_id=org,
                person_id=person["id"],
                template_id="a-template",
                activity_id=owed[2].id,
                delegation_id=done.about.get(route.path, done.id),
                approval_id=approval,
                runner_id=runner["id"],
                **_names_of(done.talks.get(route.path)),
            ),
            token=_token_for(route, seat, runner["token"]),
            seat=seat,
            port=server.port,
            owed=owed,
            done=done,
        )
        for route in server.server.routes.routes
        if (route.body is not None or route.path.endswith("/a2a")) and route.path not in ELSEWHERE
    ]


def _token_for(route: Route, seat: Seat, runner_token: str) -> str:
    if RUNNER in route.access.kinds:
        return runner_token
    return seat.token if WORKSPACE in route.access.kinds else ADMIN_TOKEN


async def _runner(server: Running, org_id: str, seat: Seat) -> dict[str, Any]:
    """A runner that has started an agent in the seat."""
    runner: dict[str, Any] = await server.admin.post(f"/orgs/{org_id}/runners", {"name": "Laptop"})
    own = server.api(runner["token"])
    await own.post("/runner/report", {"installed": [{"kind": "claude", "title": "Claude Code", "version": "2"}]})
    start = {"action": "start", "workspace_id": seat.id, "kind": "claude", "folder": "/srv"}
    await server.admin.post(f"/orgs/{org_id}/runners/{runner['id']}/requests", start)
    await own.post("/runner/claim", {})
    return runner


class Owed(NamedTuple):
    """A message that the seat was handed, and owes an answer to."""

    id: str
    handle: str


class Done(NamedTuple):
    """A delegation that the seat gave and that has ended: asked for again under its key, it is there at once."""

    id: str
    body: dict[str, Any]
    recorded: dict[str, Any]
    """Another one, that the seat only recorded."""
    about: dict[str, str]
    """Of routes that are about another one than that: which."""
    talks: dict[str, "Talk"]
    """A thread for every route about one."""


RUNNING_TURN = "running"


class Talk(NamedTuple):
    """A thread, claimed by an engine, and its turn."""

    id: str
    turn: str


async def _done(server: Running, seat: Seat) -> Done:
    worker = await server.seat("Worker")
    body = {"target_id": worker.id, "task": "sort the mail", "idempotency_key": "done"}
    told = await seat.api.post(f"/workspaces/{seat.id}/delegate", body)
    await worker.api.claim(worker.id)
    owed = await worker.api.get(f"/workspaces/{worker.id}/obligations")
    reply = {"handle": owed["obligations"][0]["handle"], "text": "sorted"}
    await worker.api.post(f"/workspaces/{worker.id}/reply", reply)
    recorded = {"target_id": worker.id, "task": "file it", "delegation_id": "recorded"}
    await seat.api.post(f"/workspaces/{seat.id}/delegations/record", recorded)
    own = {"target_id": seat.id, "task": "sort it yourself"}
    given = (await worker.api.post(f"/workspaces/{worker.id}/delegate", own))["delegation_id"]
    about = {"/workspaces/{id}/delegations/{delegation_id}/update": "recorded"}
    about |= {f"{one}/{{delegation_id}}/status": given for one in ("/delegations", "/workspaces/{id}/delegations")}
    working = {"activity_id": RUNNING_TURN, "events": [{"type": "status", "status": "working"}]}
    await seat.api.post(f"/workspaces/{seat.id}/live", working)
    talks = {each.path: await _talk(seat, each.path) for each in server.server.routes.routes if _is_of_a_thread(each)}
    return Done(told["delegation_id"], body, recorded, about, talks)


def _is_of_a_thread(route: Route) -> bool:
    return route.body is not None and "{thread_id}" in route.path


async def _talk(seat: Seat, path: str) -> Talk:
    """A thread whose turn runs, and which has an agent below it. That of `resume` rests, as it must."""
    start = {"base_instructions": "Be kind.", "input": "hello", "nickname": "talk"}
    thread = await seat.api.post(f"/workspaces/{seat.id}/threads", start)
    one, turn = f"/threads/{thread['thread_id']}", thread["queued"][0]
    await seat.api.post(f"{one}/claim", {"owner": "an engine"})
    await seat.api.post(f"{one}/turns/{turn}/begin", {"generation": 1})
    await seat.api.post(f"{one}/agents/spawn", {"call_id": "kid", "task_name": "kid", "message": "help"})
    if path.endswith("/resume"):
        await seat.api.post(f"{one}/turns/{turn}/end", {"generation": 1, "status": "completed"})
    return Talk(thread["thread_id"], turn)


async def _to_decide(server: Running, seat: Seat) -> str:
    """What a child of the seat asks it for leave to do: the same decision again is no other one."""
    child = await server.seat("Child", parent_id=seat.id)
    await seat.api.post("/registry/heartbeat", {"workspace_id": seat.id})
    asked = await child.api.post(f"/workspaces/{child.id}/approvals", {"action": "open the shop"})
    return str(asked["approval_id"])


async def _owed(server: Running, seat: Seat) -> list[Owed]:
    """Four of them: to answer, to decline, to have a draft, to be asked back."""
    for number in range(4):
        await server.admin.send(seat.id, f"Question {number}?")
    await seat.api.claim(seat.id)
    found = await server.admin.get(f"/workspaces/{seat.id}/obligations")
    return [Owed(each["activity_id"], each["handle"]) for each in found["obligations"]]


def _names_of(talk: Talk | None) -> dict[str, str]:
    return {} if talk is None else {"thread_id": talk.id, "turn_id": talk.turn}


def _filled(path: str, **values: str) -> str:
    for name, value in values.items():
        path = path.replace(f"{{{name}}}", value)
    return path


def valid_body(route: Route, seat: Seat, owed: list[Owed], done: Done) -> dict[str, Any]:
    """The least that a route takes."""
    talk = done.talks.get(route.path)
    bodies: dict[str, dict[str, Any]] = {
        "/workspaces/{id}/threads": {"base_instructions": "Be kind."},
        "/threads/{thread_id}/turns": {"input": "and this"},
        "/threads/{thread_id}/interrupt": {},
        "/threads/{thread_id}/close": {},
        "/threads/{thread_id}/resume": {},
        "/threads/{thread_id}/fork": {},
        "/threads/{thread_id}/claim": {"owner": "an engine"},
        "/threads/{thread_id}/release": {"generation": 1},
        "/threads/{thread_id}/entries": {"generation": 1, "turn_id": talk.turn if talk else "", "entries": []},
        "/threads/{thread_id}/turns/{turn_id}/begin": {"generation": 1},
        "/threads/{thread_id}/turns/{turn_id}/end": {"generation": 1, "status": "completed"},
        "/threads/{thread_id}/agents/spawn": {"call_id": "one", "task_name": "one", "message": "help"},
        **{
            f"/threads/{{thread_id}}/agents/{act}": {"call_id": "one", "target": "kid", "message": "more"}
            for act in ("send", "followup", "interrupt", "close", "resume")
        },
        "/threads/{thread_id}/agents/wait": {"call_id": "one", "targets": ["kid"], "timeout": 1},
        "/orgs": {"name": f"Org {next(_numbers)}"},
        "/orgs/{org_id}": {"name": f"Org {next(_numbers)}"},
        "/orgs/{org_id}/people": {"name": "Somebody"},
        "/orgs/{org_id}/login-links": {},
        "/workspaces": {"name": "New"},
        "/orgs/{org_id}/people/{person_id}": {},
        "/orgs/{org_id}/invitations": {"name": "Somebody"},
        "/workspaces/{id}": {},
        "/workspaces/{id}/expand": {"children": [{"name": "New"}]},
        "/workspaces/{id}/abilities": {"talk_to_user_enabled": True},
        "/workspaces/{id}/a2a": {"params": {"message": {"parts": [{"kind": "text", "text": "hello"}]}}},
        "/workspaces/{id}/notify": {"message": "hello", "progress": True},  # else it would answer one of them
        "/workspaces/{id}/reply": {"handle": owed[0].handle, "text": "yes, it is done"},
        "/workspaces/{id}/decline": {"handle": owed[1].handle, "reason": "not mine"},
        "/workspaces/{id}/options": {"question": "Which?", "options": ["this"], "in_reply_to": owed[3].id},
        "/workspaces/{id}/messages/{activity_id}/draft": {"text": "what I said"},
        "/workspaces/{id}/delegate": dict(done.body),
        "/workspaces/{id}/delegations/{delegation_id}/wait": {"wait": 0},
        "/workspaces/{id}/delegations/record": dict(done.recorded),
        "/workspaces/{id}/delegations/{delegation_id}/update": {"status": "completed", "result": "sorted"},
        "/workspaces/{id}/delegations/{delegation_id}/status": {"current_step": "reading"},
        "/delegations/{delegation_id}/status": {"current_step": "reading"},
        "/workspaces/{id}/delegations/{delegation_id}/cancel": {"reason": "not wanted"},
        "/workspaces/{id}/approvals": {"action": "open the shop"},
        "/workspaces/{id}/approvals/{approval_id}/decide": {"decision": "approve"},
        "/workspaces/{id}/approval-rules": {"rules": []},
        "/workspaces/{id}/standing-authority": {"grants": []},
        "/workspaces/{id}/broadcast": {"message": "hello"},
        "/workspaces/{id}/activity": {"activity_type": "agent_log"},
        "/workspaces/{id}/activity/ack": {"acked_seq": 0},
        "/workspaces/{id}/activity/release": {"claims": [{"activity_id": "a-1", "attempt": 1}]},
        "/workspaces/{id}/activity/read": {"claims": [{"activity_id": "a-1", "attempt": 1}]},
        "/workspaces/{id}/chat/read": {"seq": 0},
        "/workspaces/{id}/live": {"activity_id": RUNNING_TURN, "events": []},
        "/orgs/{org_id}/schedule-preview": {"cron": "0 8 * * *"},
        "/workspaces/{id}/turn-lease": {"money": 1, "tokens": 1},
        "/workspaces/{id}/limit": {"until": "2020-11-21T22:41:07Z", "reason": "the quota is used up"},
        "/workspaces/{id}/live/stop": {"activity_id": RUNNING_TURN},
        "/workspaces/{id}/push-secret/rotate": {},
        "/workspaces/{id}/memories": {"content": f"hello {next(_numbers)}"},
        "/workspaces/{id}/memory": {"key": "a", "value": 1},
        "/orgs/{org_id}/usage/prices": {"prices": []},
        "/workspaces/{id}/usage": {"key": f"turn-{next(_numbers)}"},
        "/workspaces/{id}/shared-context": {"files": []},
        "/workspaces/{id}/prompt": {
            "sections": [],
            "trigger": {"kind": "start"},
            "hash": "0",
            "tokens": 0,
            "budget": 1,
        },
        "/cp/admin/workspace/{id}/instruction-template": {"inline_template": "Be brief."},
        "/orgs/{org_id}/instruction-templates": {"id": f"template-{next(_numbers)}", "parts": {}},
        "/orgs/{org_id}/instruction-templates/preview": {},
        "/orgs/{org_id}/instruction-templates/render": {"workspace_id": seat.id},
        "/orgs/{org_id}/instruction-templates/{template_id}": {"parts": {}},
        "/orgs/{org_id}/instruction-templates/{template_id}/restore": {"version": 1},
        "/orgs/{org_id}/runners": {"name": "Laptop"},
        "/orgs/{org_id}/oauth-clients": {"name": "App", "redirect_uris": ["https://app.example/"]},
        "/orgs/{org_id}/runners/{runner_id}/requests": {"action": "logs", "workspace_id": seat.id},
        "/runner/report": {"machine": "laptop"},
        "/runner/claim": {"wait": 0},
        "/registry/register": {"id": seat.id, "agent_card": {}},
        "/registry/heartbeat": {"workspace_id": seat.id},
        "/registry/update-card": {"workspace_id": seat.id, "agent_card": {}},
        "/registry/check-access": {"caller_id": seat.id, "target_id": seat.id},
    }
    return bodies[route.path]


async def left_behind(server: Running, seat: Seat) -> tuple[int, int, int]:
    """How many organisations, seats and rows there are: what a refused request must not change."""
    orgs, seats = await server.admin.get("/orgs"), await server.admin.get("/workspaces")
    return len(orgs), len(seats), len(await server.admin.get(f"/workspaces/{seat.id}/activity", limit=500))
