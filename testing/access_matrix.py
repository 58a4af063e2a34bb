"""Who may what, written down a second time and on purpose: every route, every kind of credential, every target."""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from testing.callers import UNKNOWN, Cast, Credential
from testing.raw_http import Reply, Wire, ask

PEOPLE, EVERYBODY, AGENT = {"person", "admin"}, {"person", "workspace", "admin"}, {"workspace", "admin"}
VIEWER, OPERATOR, OWNER = "viewer", "operator", "owner"
RANK = {VIEWER: 0, OPERATOR: 1, OWNER: 2}


class Rule(NamedTuple):
    """Who may call a route, written down here a second time and on purpose.

    `reach`: how far a workspace's token goes: "own", "talk" (refused for others with 403), "" (no workspace in the
    path). `names`: what the request names: a workspace or an organisation in its path, a workspace in its body.
    `finds_nothing`: it also names a message, and there is none: who may ask learns as little as who may not.
    """

    kinds: set[str]
    reach: str = ""
    role: str = VIEWER
    names: str = ""
    body: dict[str, Any] | None = None
    behind: tuple[int, str] | None = None
    """What the handler says of a person, token or invitation that is not there; the guards let the request pass."""
    finds_nothing: bool = False


NOT_THERE = (404, "not_found")
TEXT = {"params": {"message": {"content": "hi"}}}
_A2A = "/workspaces/{id}/a2a"
_A2A_HOOKS = f"{_A2A}/tasks/{{task_id}}/pushNotificationConfigs"
_NO_TASK = (404, "None")  # errors of A2A have other members
_A2A_MESSAGE = {
    "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]},
    "configuration": {"returnImmediately": True},
}
_APPROVAL = "/workspaces/{id}/approvals/{approval_id}"
_DRAFT = "/workspaces/{id}/messages/{activity_id}/draft"
_CHOSEN, _TEMPLATES = "/cp/admin/workspace/{id}/instruction-template", "/orgs/{org_id}/instruction-templates"
_RUNNERS = "/orgs/{org_id}/runners"
_CLIENTS = "/orgs/{org_id}/oauth-clients"
OAUTH_WITHOUT_PUBLIC_URL = (
    ("GET", "/.well-known/oauth-protected-resource"),
    ("GET", "/.well-known/oauth-protected-resource/mcp"),
    ("GET", "/.well-known/oauth-protected-resource/workspaces/{id}/mcp"),
    ("GET", "/.well-known/oauth-authorization-server"),
    ("GET", "/oauth/authorize"),
    ("GET", "/oauth/consent"),
    *(("POST", f"/oauth/{each}") for each in ("consent", "login", "token", "revoke", "register")),
)
"""Routes that apps and browsers reach without a credential; a server without a public address has none of them."""
_TEMPLATE = f"{_TEMPLATES}/{{template_id}}"
_AGENTS = {"call_id": "one", "target": "root", "targets": ["root"], "message": "hi", "task_name": "one"}
THREAD_BODIES: dict[str, dict[str, Any] | None] = {
    **{each: {} for each in ("interrupt", "close", "resume", "fork")},
    "turns": {"input": "hi"},
    "compact": None,
    "claim": {"owner": "an engine"},
    "release": {"generation": 1},
    "entries": {"generation": 1, "turn_id": UNKNOWN, "entries": []},
    "turns/{turn_id}/begin": {"generation": 1},
    "turns/{turn_id}/end": {"generation": 1, "status": "completed"},
    **{f"agents/{each}": _AGENTS for each in ("spawn", "send", "followup", "wait", "interrupt", "close", "resume")},
}
_SCHEDULE = {"name": "x", "target_id": UNKNOWN, "cron": "0 8 * * *", "text": "x"}
_BUDGET = {"scope": "workspace", "target_id": UNKNOWN, "unit": "tokens", "limit": 1}
RULES: dict[tuple[str, str], Rule] = {
    ("GET", "/health"): Rule(set()),
    ("GET", "/ready"): Rule(set()),
    ("GET", "/openapi.json"): Rule(EVERYBODY),
    ("GET", "/"): Rule(set()),
    ("GET", "/agent-docs"): Rule(set()),
    ("GET", "/agent-docs/replies"): Rule(set()),
    ("GET", "/docs"): Rule(set()),
    ("GET", "/docs/{path}"): Rule(set()),
    ("GET", "/app"): Rule(set()),
    ("GET", "/app/{path}"): Rule(set()),
    ("POST", "/login"): Rule(set(), body={"code": "nothing"}),
    ("GET", "/login"): Rule(set()),
    ("POST", "/logout"): Rule(PEOPLE),
    ("GET", "/session"): Rule(PEOPLE),
    ("GET", "/sessions"): Rule(set()),
    **{place: Rule(set(), behind=(404, "no_such_route")) for place in OAUTH_WITHOUT_PUBLIC_URL},
    ("GET", _CLIENTS): Rule(PEOPLE, "", OWNER, "org"),
    ("POST", _CLIENTS): Rule(PEOPLE, "", OWNER, "org", {"name": "New", "redirect_uris": ["https://app.example/"]}),
    ("DELETE", f"{_CLIENTS}/{{client_id}}"): Rule(PEOPLE, "", OWNER, "org", None, NOT_THERE),
    ("GET", "/workspaces/{id}/oauth-grants"): Rule(PEOPLE, "own", OPERATOR, "path"),
    ("DELETE", "/workspaces/{id}/oauth-grants/{grant_id}"): Rule(PEOPLE, "own", OPERATOR, "path", None, NOT_THERE),
    ("GET", "/ws"): Rule(EVERYBODY),
    ("GET", "/threads/ws"): Rule(EVERYBODY),
    ("GET", "/events/stream"): Rule(EVERYBODY),
    ("GET", "/workspaces/{id}/events/stream"): Rule(EVERYBODY, "own", VIEWER, "path"),
    ("GET", "/orgs/{org_id}/snapshot"): Rule(PEOPLE, "", VIEWER, "org"),
    ("POST", "/orgs/{org_id}/login-links"): Rule(PEOPLE, "", OWNER, "org", {}),
    ("GET", "/metrics"): Rule({"admin", "metrics"}),
    ("POST", "/admin/prune"): Rule({"admin"}),
    ("GET", "/admin/settings"): Rule({"admin"}),
    ("POST", "/orgs"): Rule({"admin"}, body={"name": "New"}),
    ("GET", "/orgs"): Rule({"admin"}),
    ("PATCH", "/orgs/{org_id}"): Rule(PEOPLE, "", OWNER, "org", {}),
    ("GET", "/orgs/{org_id}/sample-team"): Rule(PEOPLE, "", VIEWER, "org"),
    ("POST", "/orgs/{org_id}/sample-team"): Rule(PEOPLE, "", OPERATOR, "org"),
    ("POST", "/orgs/{org_id}/people"): Rule(PEOPLE, "", OWNER, "org", {"name": "New"}),
    ("GET", "/orgs/{org_id}/tree"): Rule(PEOPLE, "", VIEWER, "org"),
    ("POST", "/workspaces"): Rule(PEOPLE, "", OPERATOR, "", {"name": "New"}),
    ("GET", "/workspaces"): Rule(PEOPLE),
    ("GET", "/workspaces/{id}"): Rule(EVERYBODY, "talk", VIEWER, "path"),
    ("PATCH", "/workspaces/{id}"): Rule(PEOPLE, "own", OPERATOR, "path", {}),
    ("DELETE", "/workspaces/{id}"): Rule(PEOPLE, "own", OPERATOR, "path"),
    ("POST", "/workspaces/{id}/expand"): Rule(PEOPLE, "own", OPERATOR, "path", {"children": [{"name": "New"}]}),
    ("POST", "/workspaces/{id}/collapse"): Rule(PEOPLE, "own", OPERATOR, "path"),
    ("POST", "/workspaces/{id}/pause"): Rule(PEOPLE, "own", OPERATOR, "path"),
    ("POST", "/workspaces/{id}/resume"): Rule(PEOPLE, "own", OPERATOR, "path"),
    ("POST", "/workspaces/{id}/hibernate"): Rule(PEOPLE, "own", OPERATOR, "path"),
    ("POST", "/workspaces/{id}/limit"): Rule(EVERYBODY, "own", OPERATOR, "path", {"until": "2020-11-21T22:41:07Z"}),
    ("DELETE", "/workspaces/{id}/limit"): Rule(EVERYBODY, "own", OPERATOR, "path"),
    ("GET", "/workspaces/{id}/budgets"): Rule(EVERYBODY, "own", VIEWER, "path"),
    ("PUT", "/workspaces/{id}/turn-lease"): Rule(PEOPLE, "own", OPERATOR, "path", {"money": 1, "tokens": 1}),
    ("GET", "/orgs/{org_id}/schedules"): Rule(PEOPLE, "", VIEWER, "org"),
    ("POST", "/orgs/{org_id}/schedules"): Rule(PEOPLE, "", OPERATOR, "org", _SCHEDULE, NOT_THERE),
    ("POST", "/orgs/{org_id}/schedule-preview"): Rule(PEOPLE, "", VIEWER, "org", {"cron": "0 8 * * *"}),
    ("GET", "/orgs/{org_id}/schedules/{schedule_id}"): Rule(PEOPLE, "", VIEWER, "org", None, NOT_THERE),
    ("PUT", "/orgs/{org_id}/schedules/{schedule_id}"): Rule(PEOPLE, "", OPERATOR, "org", _SCHEDULE, NOT_THERE),
    ("DELETE", "/orgs/{org_id}/schedules/{schedule_id}"): Rule(PEOPLE, "", OPERATOR, "org", None, NOT_THERE),
    ("PUT", "/orgs/{org_id}/schedules/{schedule_id}/paused"): Rule(
        PEOPLE, "", OPERATOR, "org", {"paused": True}, NOT_THERE
    ),
    ("GET", "/orgs/{org_id}/schedules/{schedule_id}/runs"): Rule(PEOPLE, "", VIEWER, "org", None, NOT_THERE),
    ("GET", "/orgs/{org_id}/schedules/{schedule_id}/next"): Rule(PEOPLE, "", VIEWER, "org", None, NOT_THERE),
    ("GET", "/orgs/{org_id}/budgets"): Rule(PEOPLE, "", VIEWER, "org"),
    ("POST", "/orgs/{org_id}/budgets"): Rule(PEOPLE, "", OPERATOR, "org", _BUDGET, NOT_THERE),
    ("GET", "/orgs/{org_id}/budgets/{budget_id}"): Rule(PEOPLE, "", VIEWER, "org", None, NOT_THERE),
    ("PUT", "/orgs/{org_id}/budgets/{budget_id}"): Rule(PEOPLE, "", OPERATOR, "org", {"limit": 1}, NOT_THERE),
    ("DELETE", "/orgs/{org_id}/budgets/{budget_id}"): Rule(PEOPLE, "", OPERATOR, "org", None, NOT_THERE),
    ("PATCH", "/workspaces/{id}/abilities"): Rule(PEOPLE, "own", OWNER, "path", {"talk_to_user_enabled": True}),
    ("GET", "/workspaces/{id}/tokens"): Rule(PEOPLE, "own", OPERATOR, "path"),
    ("POST", "/workspaces/{id}/tokens"): Rule(PEOPLE, "own", OPERATOR, "path"),
    ("DELETE", "/workspaces/{id}/tokens/{token_id}"): Rule(PEOPLE, "own", OPERATOR, "path", None, NOT_THERE),
    ("POST", "/workspaces/{id}/external/rotate"): Rule(PEOPLE, "own", OPERATOR, "path", {"grace_seconds": 3600}),
    ("POST", "/workspaces/{id}/push-secret/rotate"): Rule(PEOPLE, "own", OPERATOR, "path", {"grace_seconds": 0}),
    ("GET", "/workspaces/{id}/external/connection"): Rule(PEOPLE, "own", OPERATOR, "path"),
    ("POST", "/a2a/push/{workspace_id}/{activity_id}"): Rule(set(), behind=NOT_THERE),
    ("GET", "/workspaces/{id}/a2a-agent"): Rule(PEOPLE, "own", VIEWER, "path", None, NOT_THERE),
    ("GET", "/hosts"): Rule(PEOPLE),
    ("GET", "/workspaces/{id}/connect"): Rule(PEOPLE, "own", OPERATOR, "path"),
    ("GET", "/orgs/{org_id}/people"): Rule(PEOPLE, "", VIEWER, "org"),
    ("PATCH", "/orgs/{org_id}/people/{person_id}"): Rule(PEOPLE, "", OWNER, "org", {}, NOT_THERE),
    ("DELETE", "/orgs/{org_id}/people/{person_id}"): Rule(PEOPLE, "", OWNER, "org", None, NOT_THERE),
    ("GET", "/orgs/{org_id}/people/{person_id}/tokens"): Rule(PEOPLE, "", VIEWER, "org", None, NOT_THERE),
    ("POST", "/orgs/{org_id}/people/{person_id}/tokens"): Rule(PEOPLE, "", VIEWER, "org", None, NOT_THERE),
    ("DELETE", "/orgs/{org_id}/people/{person_id}/tokens/{token_id}"): Rule(PEOPLE, "", VIEWER, "org", None, NOT_THERE),
    ("POST", "/orgs/{org_id}/invitations"): Rule(PEOPLE, "", OWNER, "org", {"name": "New"}),
    ("GET", "/orgs/{org_id}/invitations"): Rule(PEOPLE, "", OWNER, "org"),
    ("DELETE", "/orgs/{org_id}/invitations/{invitation_id}"): Rule(PEOPLE, "", OWNER, "org", None, NOT_THERE),
    ("GET", _RUNNERS): Rule(PEOPLE, "", OPERATOR, "org"),
    ("POST", _RUNNERS): Rule(PEOPLE, "", OPERATOR, "org", {"name": "New"}),
    ("DELETE", f"{_RUNNERS}/{{runner_id}}"): Rule(PEOPLE, "", OPERATOR, "org", None, NOT_THERE),
    ("POST", f"{_RUNNERS}/{{runner_id}}/requests"): Rule(
        PEOPLE, "", OPERATOR, "org", {"action": "stop", "workspace_id": UNKNOWN}, NOT_THERE
    ),
    ("GET", f"{_RUNNERS}/{{runner_id}}/requests/{{request_id}}"): Rule(PEOPLE, "", OPERATOR, "org", None, NOT_THERE),
    ("POST", "/runner/report"): Rule({"runner"}, body={}),
    ("POST", "/runner/claim"): Rule({"runner"}, body={}),
    ("POST", "/runner/requests/{request_id}/confirm"): Rule({"runner"}, body={"status": "done"}, behind=NOT_THERE),
    ("GET", "/workspaces/{id}/state"): Rule(EVERYBODY, "own", VIEWER, "path"),
    ("POST", "/registry/register"): Rule(AGENT, "own", VIEWER, "id", {"agent_card": {}}),
    ("POST", "/registry/heartbeat"): Rule(AGENT, "own", VIEWER, "workspace_id", {}),
    ("POST", "/registry/update-card"): Rule(AGENT, "own", VIEWER, "workspace_id", {"agent_card": {}}),
    ("GET", "/registry/{id}/peers"): Rule(EVERYBODY, "own", VIEWER, "path"),
    ("GET", "/registry/discover/{id}"): Rule(EVERYBODY, "talk", VIEWER, "path"),
    ("POST", "/registry/check-access"): Rule(EVERYBODY, body={"caller_id": UNKNOWN, "target_id": UNKNOWN}),
    ("POST", "/workspaces/{id}/a2a"): Rule(EVERYBODY, "talk", OPERATOR, "path", TEXT),
    ("POST", f"{_A2A}/message:send"): Rule(EVERYBODY, "talk", OPERATOR, "path", _A2A_MESSAGE),
    ("POST", f"{_A2A}/message:stream"): Rule(EVERYBODY, "talk", OPERATOR, "path", _A2A_MESSAGE),
    ("GET", f"{_A2A}/tasks"): Rule(EVERYBODY, "talk", OPERATOR, "path"),
    ("GET", f"{_A2A}/tasks/{{task_id}}"): Rule(EVERYBODY, "talk", OPERATOR, "path", None, _NO_TASK),
    ("POST", f"{_A2A}/tasks/{{task_id}}"): Rule(EVERYBODY, "talk", OPERATOR, "path", {}, _NO_TASK),
    ("POST", _A2A_HOOKS): Rule(EVERYBODY, "talk", OPERATOR, "path", {"url": "https://a.example/"}, _NO_TASK),
    ("GET", _A2A_HOOKS): Rule(EVERYBODY, "talk", OPERATOR, "path", None, _NO_TASK),
    ("GET", f"{_A2A_HOOKS}/{{config_id}}"): Rule(EVERYBODY, "talk", OPERATOR, "path", None, _NO_TASK),
    ("DELETE", f"{_A2A_HOOKS}/{{config_id}}"): Rule(EVERYBODY, "talk", OPERATOR, "path", None, _NO_TASK),
    ("GET", f"{_A2A}/extendedAgentCard"): Rule(EVERYBODY, "talk", OPERATOR, "path"),
    ("GET", "/workspaces/{id}/.well-known/agent-card.json"): Rule(set(), "", VIEWER, "path", None, NOT_THERE),
    ("GET", "/workspaces/{id}/.well-known/agent.json"): Rule(set(), "", VIEWER, "path", None, NOT_THERE),
    ("GET", "/.well-known/agent-card.json"): Rule(set(), behind=NOT_THERE),
    ("GET", "/.well-known/agent.json"): Rule(set(), behind=NOT_THERE),
    ("GET", "/a2a/agents"): Rule(EVERYBODY),
    ("POST", "/workspaces/{id}/notify"): Rule({"workspace"}, "own", VIEWER, "path", {"message": "hi"}),
    ("POST", "/workspaces/{id}/broadcast"): Rule(EVERYBODY, "own", OPERATOR, "path", {"message": "hi"}),
    ("GET", "/orgs/{org_id}/chains"): Rule(PEOPLE, "", VIEWER, "org"),
    ("GET", "/orgs/{org_id}/chains/{root_id}"): Rule(PEOPLE, "", VIEWER, "org"),
    ("GET", "/orgs/{org_id}/traces/{activity_id}"): Rule(PEOPLE, "", VIEWER, "org"),
    ("POST", "/orgs/{org_id}/chains/{root_id}/release"): Rule(PEOPLE, "", OPERATOR, "org", {}),
    ("POST", "/orgs/{org_id}/chains/{root_id}/end"): Rule(PEOPLE, "", OPERATOR, "org"),
    ("GET", "/workspaces/{id}/activity"): Rule(EVERYBODY, "own", VIEWER, "path"),
    ("GET", "/workspaces/{id}/waiting"): Rule(EVERYBODY, "own", VIEWER, "path"),
    ("GET", "/workspaces/{id}/activities"): Rule(EVERYBODY, "own", VIEWER, "path"),
    ("POST", "/workspaces/{id}/activity"): Rule({"workspace"}, "own", VIEWER, "path", {"activity_type": "agent_log"}),
    ("POST", "/workspaces/{id}/activity/ack"): Rule({"workspace"}, "own", VIEWER, "path", {"acked_seq": 0}),
    ("POST", "/workspaces/{id}/activity/release"): Rule({"workspace"}, "own", VIEWER, "path", {"claims": []}),
    ("POST", "/workspaces/{id}/activity/read"): Rule({"workspace"}, "own", VIEWER, "path", {"claims": []}),
    ("GET", "/workspaces/{id}/chat-history"): Rule(EVERYBODY, "own", VIEWER, "path"),
    ("POST", "/workspaces/{id}/chat/read"): Rule(PEOPLE, "own", VIEWER, "path", {"seq": 0}),
    ("POST", "/workspaces/{id}/chat/uploads"): Rule(EVERYBODY, "talk", OPERATOR, "path"),
    ("GET", "/workspaces/{id}/files/{file_id}"): Rule(EVERYBODY, "talk", VIEWER, "path"),
    ("GET", "/workspaces/{id}/files/{file_id}/preview"): Rule(EVERYBODY, "talk", VIEWER, "path"),
    ("GET", "/workspaces/{id}/pending-uploads/{file_id}/content"): Rule({"workspace"}, "own", VIEWER, "path"),
    ("POST", "/workspaces/{id}/pending-uploads/{file_id}/ack"): Rule({"workspace"}, "own", VIEWER, "path"),
    ("GET", "/uploads/limits"): Rule(EVERYBODY),
    ("GET", "/workspaces/{id}/shared-context"): Rule(EVERYBODY, "talk", VIEWER, "path"),
    ("PUT", "/workspaces/{id}/shared-context"): Rule({"workspace"}, "own", VIEWER, "path", {"files": []}),
    ("GET", "/workspaces/{id}/host-context"): Rule(EVERYBODY, "own", VIEWER, "path"),
    ("GET", "/workspaces/{id}/prompt"): Rule(EVERYBODY, "own", VIEWER, "path", None, (404, "no_prompt_yet")),
    ("PUT", "/workspaces/{id}/prompt"): Rule({"workspace"}, "own", VIEWER, "path", {"sections": []}),
    ("GET", "/workspaces/{id}/threads"): Rule(EVERYBODY, "own", VIEWER, "path"),
    ("POST", "/workspaces/{id}/threads"): Rule(EVERYBODY, "own", OPERATOR, "path", {"base_instructions": "hi"}),
    ("POST", "/workspaces/{id}/live"): Rule({"workspace"}, "own", VIEWER, "path", {"activity_id": "a", "events": []}),
    ("GET", "/workspaces/{id}/live/controls"): Rule({"workspace"}, "own", VIEWER, "path"),
    ("POST", "/workspaces/{id}/live/stop"): Rule(PEOPLE, "own", OPERATOR, "path", {"activity_id": "none"}),
    ("GET", "/workspaces/{id}/threads/work"): Rule({"workspace"}, "own", VIEWER, "path"),
    **{
        ("GET", f"/threads/{{thread_id}}{each}"): Rule(EVERYBODY, behind=NOT_THERE)
        for each in ("", "/items", "/sight", "/tree", "/collab", "/agents")
    },
    **{
        ("POST", f"/threads/{{thread_id}}/{each}"): Rule(EVERYBODY, role=OPERATOR, body=body, behind=NOT_THERE)
        for each, body in THREAD_BODIES.items()
    },
    ("GET", "/approvals"): Rule(PEOPLE),
    ("GET", "/approvals/pending"): Rule(PEOPLE),
    ("GET", "/workspaces/{id}/approvals"): Rule(EVERYBODY, "own", VIEWER, "path"),
    ("POST", "/workspaces/{id}/approvals"): Rule({"workspace"}, "own", VIEWER, "path", {}),
    ("GET", _APPROVAL): Rule(EVERYBODY, "own", VIEWER, "path", finds_nothing=True),
    ("POST", f"{_APPROVAL}/decide"): Rule(
        EVERYBODY, "talk", OPERATOR, "path", {"decision": "deny"}, finds_nothing=True
    ),
    ("POST", f"{_APPROVAL}/answer"): Rule({"workspace"}, "own", VIEWER, "path", {"text": "hi"}, finds_nothing=True),
    ("POST", f"{_APPROVAL}/withdraw"): Rule(EVERYBODY, "own", OPERATOR, "path", {}, finds_nothing=True),
    ("POST", f"{_APPROVAL}/use"): Rule({"workspace"}, "own", VIEWER, "path", {"action_hash": ""}, finds_nothing=True),
    ("GET", "/workspaces/{id}/approval-rules"): Rule(EVERYBODY, "own", VIEWER, "path"),
    ("PUT", "/workspaces/{id}/approval-rules"): Rule(PEOPLE, "own", OPERATOR, "path", {"rules": []}),
    ("GET", "/workspaces/{id}/standing-authority"): Rule(EVERYBODY, "own", VIEWER, "path"),
    ("PUT", "/workspaces/{id}/standing-authority"): Rule(PEOPLE, "own", OPERATOR, "path", {"grants": []}),
    ("GET", "/workspaces/{id}/memories"): Rule(EVERYBODY, "own", OPERATOR, "path"),
    ("POST", "/workspaces/{id}/memories"): Rule(EVERYBODY, "own", OPERATOR, "path", {"content": "hi"}),
    ("DELETE", "/workspaces/{id}/memories/{memory_id}"): Rule(EVERYBODY, "own", OPERATOR, "path", finds_nothing=True),
    ("GET", "/workspaces/{id}/memory"): Rule(EVERYBODY, "own", OPERATOR, "path"),
    ("POST", "/workspaces/{id}/memory"): Rule(EVERYBODY, "own", OPERATOR, "path", {"key": "k", "value": 1}),
    ("GET", "/workspaces/{id}/memory/{key}"): Rule(EVERYBODY, "own", OPERATOR, "path", finds_nothing=True),
    ("DELETE", "/workspaces/{id}/memory/{key}"): Rule(EVERYBODY, "own", OPERATOR, "path", finds_nothing=True),
    ("GET", "/workspaces/{id}/a2a/queue/{queue_id}"): Rule(EVERYBODY, "talk", VIEWER, "path", finds_nothing=True),
    ("GET", "/workspaces/{id}/messages/{activity_id}/ticks"): Rule(
        EVERYBODY, "talk", VIEWER, "path", finds_nothing=True
    ),
    ("POST", "/workspaces/{id}/reply"): Rule({"workspace"}, "own", VIEWER, "path", {}),
    ("POST", "/workspaces/{id}/decline"): Rule({"workspace"}, "own", VIEWER, "path", {}),
    ("POST", "/workspaces/{id}/options"): Rule({"workspace"}, "own", VIEWER, "path", {}),
    ("POST", _DRAFT): Rule({"workspace"}, "own", VIEWER, "path", {}),
    ("POST", f"{_DRAFT}/send"): Rule(PEOPLE, "own", OPERATOR, "path", {}, finds_nothing=True),
    ("POST", f"{_DRAFT}/discard"): Rule(PEOPLE, "own", OPERATOR, "path", finds_nothing=True),
    ("GET", "/workspaces/{id}/obligations"): Rule(EVERYBODY, "own", VIEWER, "path"),
    ("GET", "/orgs/{org_id}/obligations"): Rule(PEOPLE, "", VIEWER, "org"),
    ("POST", _CHOSEN): Rule(PEOPLE, "own", OWNER, "path", {}),
    ("GET", _CHOSEN): Rule(PEOPLE, "own", OWNER, "path"),
    ("DELETE", _CHOSEN): Rule(PEOPLE, "own", OWNER, "path"),
    ("GET", _TEMPLATES): Rule(PEOPLE, "", OWNER, "org"),
    ("POST", _TEMPLATES): Rule(PEOPLE, "", OWNER, "org", {}),
    ("POST", f"{_TEMPLATES}/preview"): Rule(PEOPLE, "", OWNER, "org", {}),
    ("POST", f"{_TEMPLATES}/render"): Rule(PEOPLE, "", OWNER, "org", {}),
    ("GET", _TEMPLATE): Rule(PEOPLE, "", OWNER, "org", finds_nothing=True),
    ("PUT", _TEMPLATE): Rule(PEOPLE, "", OWNER, "org", {}),
    ("DELETE", _TEMPLATE): Rule(PEOPLE, "", OWNER, "org", finds_nothing=True),
    ("GET", f"{_TEMPLATE}/versions"): Rule(PEOPLE, "", OWNER, "org", finds_nothing=True),
    ("POST", f"{_TEMPLATE}/restore"): Rule(PEOPLE, "", OWNER, "org", {}),
    ("GET", f"{_TEMPLATE}/figures"): Rule(PEOPLE, "", OWNER, "org", finds_nothing=True),
    ("POST", f"{_TEMPLATE}/canary"): Rule(PEOPLE, "", OWNER, "org", {}),
    ("POST", "/workspaces/{id}/delegate"): Rule({"workspace"}, "own", VIEWER, "path", {}),
    ("GET", "/workspaces/{id}/delegations"): Rule(EVERYBODY, "own", VIEWER, "path"),
    ("POST", "/workspaces/{id}/delegations/{delegation_id}/wait"): Rule(
        {"workspace"}, "own", VIEWER, "path", {}, finds_nothing=True
    ),
    ("POST", "/workspaces/{id}/delegations/{delegation_id}/cancel"): Rule(
        EVERYBODY, "own", OPERATOR, "path", {}, finds_nothing=True
    ),
    ("POST", "/workspaces/{id}/delegations/{delegation_id}/retry"): Rule(
        EVERYBODY, "own", OPERATOR, "path", finds_nothing=True
    ),
    ("POST", "/workspaces/{id}/delegations/record"): Rule({"workspace"}, "own", VIEWER, "path", {}),
    ("POST", "/workspaces/{id}/delegations/{delegation_id}/update"): Rule(
        {"workspace"}, "own", VIEWER, "path", {"status": "completed"}, finds_nothing=True
    ),
    ("POST", "/workspaces/{id}/delegations/{delegation_id}/status"): Rule(
        {"workspace"}, "own", VIEWER, "path", {}, finds_nothing=True
    ),
    ("POST", "/delegations/{delegation_id}/status"): Rule({"workspace"}, "", VIEWER, "", {}, NOT_THERE),
    ("GET", "/workspaces/{id}/timeline"): Rule(EVERYBODY, "own", VIEWER, "path"),
    ("GET", "/workspaces/{id}/scope"): Rule(EVERYBODY, "own", VIEWER, "path"),
    ("GET", "/workspaces/{id}/conversations"): Rule(PEOPLE, "own", VIEWER, "path"),
    ("GET", "/workspaces/{id}/conversations/{peer_id}"): Rule(PEOPLE, "own", VIEWER, "path", None, NOT_THERE),
    ("GET", "/delegations/{delegation_id}"): Rule(EVERYBODY, "", VIEWER, "", None, NOT_THERE),
    ("GET", "/admin/delegations"): Rule({"admin"}),
    ("GET", "/admin/delegations/stats"): Rule({"admin"}),
    ("GET", "/orgs/{org_id}/delegations"): Rule(PEOPLE, "", VIEWER, "org"),
    ("GET", "/orgs/{org_id}/search"): Rule(PEOPLE, "", VIEWER, "org"),
    ("GET", "/orgs/{org_id}/activity"): Rule(EVERYBODY, "", VIEWER, "org"),
    ("GET", "/orgs/{org_id}/activity/histogram"): Rule(EVERYBODY, "", VIEWER, "org"),
    ("GET", "/orgs/{org_id}/activity/export"): Rule(EVERYBODY, "", VIEWER, "org"),
    ("GET", "/orgs/{org_id}/dead-letters"): Rule(PEOPLE, "", VIEWER, "org"),
    ("GET", "/orgs/{org_id}/untaken"): Rule(PEOPLE, "", VIEWER, "org"),
    ("GET", "/orgs/{org_id}/questions"): Rule(PEOPLE, "", VIEWER, "org"),
    ("GET", "/workspaces/{id}/usage"): Rule(EVERYBODY, "own", VIEWER, "path"),
    ("GET", "/orgs/{org_id}/usage"): Rule(PEOPLE, "", VIEWER, "org"),
    ("GET", "/orgs/{org_id}/usage/prices"): Rule(PEOPLE, "", VIEWER, "org"),
    ("PUT", "/orgs/{org_id}/usage/prices"): Rule(PEOPLE, "", OPERATOR, "org", {"prices": []}),
    ("POST", "/workspaces/{id}/usage"): Rule(EVERYBODY, "own", OPERATOR, "path", {"key": "turn-1"}),
    ("GET", "/workspaces/{id}/webhooks"): Rule(PEOPLE, "own", OPERATOR, "path"),
    ("GET", "/workspaces/{id}/dead-letters"): Rule(PEOPLE, "own", VIEWER, "path"),
    ("POST", "/workspaces/{id}/dead-letters/{activity_id}/requeue"): Rule(
        PEOPLE, "own", OPERATOR, "path", finds_nothing=True
    ),
    ("DELETE", "/workspaces/{id}/dead-letters/{activity_id}"): Rule(
        PEOPLE, "own", OPERATOR, "path", finds_nothing=True
    ),
}
TEMPLATES, OF_SEAT = "/orgs/{org_id}/instruction-templates", "/cp/admin/workspace/{id}/instruction-template"
RULES |= {
    ("POST", OF_SEAT): Rule(PEOPLE, "own", OWNER, "path", {"template_id": "codex-default"}),
    ("GET", OF_SEAT): Rule(PEOPLE, "own", OWNER, "path"),
    ("DELETE", OF_SEAT): Rule(PEOPLE, "own", OWNER, "path"),
    ("GET", TEMPLATES): Rule(PEOPLE, "", OWNER, "org"),
    ("POST", TEMPLATES): Rule(PEOPLE, "", OWNER, "org", {"id": "terse", "parts": {}}),
    ("POST", f"{TEMPLATES}/preview"): Rule(PEOPLE, "", OWNER, "org", {}),
    ("POST", f"{TEMPLATES}/render"): Rule(PEOPLE, "", OWNER, "org", {"workspace_id": "nobody"}, NOT_THERE),
    ("GET", f"{TEMPLATES}/{{template_id}}"): Rule(PEOPLE, "", OWNER, "org", None, NOT_THERE),
    ("PUT", f"{TEMPLATES}/{{template_id}}"): Rule(PEOPLE, "", OWNER, "org", {"parts": {}, "extends": "nobody"}),
    ("DELETE", f"{TEMPLATES}/{{template_id}}"): Rule(PEOPLE, "", OWNER, "org", None, NOT_THERE),
    ("GET", f"{TEMPLATES}/{{template_id}}/versions"): Rule(PEOPLE, "", OWNER, "org", None, NOT_THERE),
    ("POST", f"{TEMPLATES}/{{template_id}}/restore"): Rule(PEOPLE, "", OWNER, "org", {"version": 1}, NOT_THERE),
}
RULES |= {(method, "/mcp"): Rule({"workspace"}) for method in ("POST", "GET", "DELETE")}
RULES |= {
    (method, "/workspaces/{id}/mcp"): Rule({"workspace"}, "own", VIEWER, "path") for method in ("POST", "GET", "DELETE")
}
# Their answer goes on, and takes the connection with it.
ENDLESS = {
    "/workspaces/{id}/a2a/message:stream",
    "/events/stream",
    "/workspaces/{id}/events/stream",
    "/orgs/{org_id}/activity/export",
}
OWN_PAGE = {"X-Molecule-Client": "test"}
# What each credential finds at each target, beyond the rules: the relations of the cast.
MAY_TALK = {("own", "own"), ("peer", "own"), ("foreign", "foreign")}


class Probe(NamedTuple):
    """One request of the matrix."""

    method: str
    path: str
    rule: Rule
    credential: str
    target: str


def probes() -> Iterator[Probe]:
    """Routes x credentials x targets."""
    names = ["none", "garbage", "admin", "owner", "operator", "viewer", "stranger", "own", "peer", "far", "foreign"]
    names.append("runner")
    for (method, path), rule in RULES.items():
        for name, target in itertools.product(names, ["own", "foreign", "unknown"] if rule.names else ["-"]):
            yield Probe(method, path, rule, name, target)


def expected(probe: Probe, cast: Cast) -> tuple[int, str] | None:
    """Status and code of the refusal; None if the request must get past the guards."""
    rule, who = probe.rule, cast.credentials[probe.credential]
    if (probe.method, probe.path) == ("POST", "/login"):
        return 401, "invalid_login"
    if probe.path.startswith("/workspaces/{id}/.well-known/") and who.token is not None:
        # Public once published; with a credential, as for a peer.
        probe = probe._replace(rule=Rule(EVERYBODY, "talk", VIEWER, "path"))
        rule = probe.rule
    if not rule.kinds:
        return rule.behind
    if not who.kind:
        return (401, "missing_credential") if who.token is None else (401, "invalid_credential")
    if who.kind not in rule.kinds:
        return 403, "credential_not_accepted"
    if RANK[who.role] < RANK[rule.role]:
        return 403, "role_too_low"
    return (_expected_at_a_target(probe, who, cast) if rule.names else None) or rule.behind


def _expected_at_a_target(probe: Probe, who: Credential, cast: Cast) -> tuple[int, str] | None:
    named_in_body = probe.path.startswith("/registry/") and "{" not in probe.path and probe.rule.reach == "own"
    if who.kind == "workspace" and named_in_body and probe.credential != probe.target:
        return 403, "token_of_other_workspace"
    org = {"own": cast.org_a, "foreign": cast.org_b, "unknown": None}[probe.target]
    if "{file_id}" in probe.path:  # there is no such file, for whoever gets so far
        org = None
    if probe.rule.finds_nothing or org is None or (who.kind != "admin" and who.org != org):
        return 404, "not_found"
    return None if who.kind != "workspace" else _expected_of_a_workspace(probe)


def _expected_of_a_workspace(probe: Probe) -> tuple[int, str] | None:
    if probe.credential == probe.target:
        return None
    if probe.rule.reach == "own":
        return 404, "not_found"
    if probe.rule.names == "org" and probe.rule.reach == "":  # its own organisation, as its live channel
        return None
    if probe.path.endswith("/shared-context"):  # nobody of the cast is a child of these
        return 403, "shared_with_children"
    return None if (probe.credential, probe.target) in MAY_TALK else (403, "may_not_talk")


async def send(connection: Wire, probe: Probe, cast: Cast, target_id: str | None = None) -> Reply:
    """The request of a probe, to a target of the cast or to another id."""
    place = {"own": (cast.own.id, cast.org_a), "foreign": (cast.foreign.id, cast.org_b)}
    id_, org_id = place.get(probe.target, (UNKNOWN, UNKNOWN))
    id_, org_id = target_id or id_, target_id or org_id
    body = probe.rule.body
    if probe.rule.names not in ("", "path", "org"):
        body = {**(body or {}), probe.rule.names: id_}
    path = probe.path.replace("{id}", id_).replace("{org_id}", org_id)
    path = path.replace("/traces/{activity_id}", "/traces/{root_id}")
    path = path.replace("{root_id}", cast.roots.get(org_id, UNKNOWN)).replace("{path}", "index")
    token = cast.credentials[probe.credential].token
    if probe.path in ENDLESS:
        return await ask(connection.port, probe.method, path, token=token)
    return await connection.ask(probe.method, path, body, token=token, headers=OWN_PAGE)


def seen(reply: Reply) -> tuple[int, str] | None:
    """What the guards said; None if the request got past them."""
    if reply.status in (401, 403, 404, 421) or reply.status >= 500:
        return reply.status, str(reply.json.get("code"))
    return None


def declared(route: Any) -> tuple[set[str], str, str]:
    """What a route says of itself, in the words of this file."""
    return {kind.value for kind in route.access.kinds}, route.access.scope.name.lower(), route.access.role.value


def without_date(reply: Reply) -> tuple[int, dict[str, str], bytes]:
    """All of an answer that must not tell two ids apart. (What is left of a rate tells only how often one asked.)"""
    moving = ("date", "x-ratelimit-remaining", "x-ratelimit-reset")
    return reply.status, {name: value for name, value in reply.headers.items() if name not in moving}, reply.body


def foreign_ids(probe: Probe, who: Credential, cast: Cast) -> list[str]:
    """Ids that exist, in an organisation that is not the caller's: a living workspace, a removed one, a relative."""
    if probe.rule.names == "org":
        return [cast.org_a if who.org == cast.org_b else cast.org_b]
    if who.org == cast.org_b:
        return [cast.own.id, cast.peer.id, cast.far.id]
    return [cast.foreign.id, cast.gone.id]
