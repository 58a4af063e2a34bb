"""What agents do besides giving tasks, by the same words through any entrance: a verb and what is given with it.

A verb has the name and the arguments of the tool, where there is one. `Rest` knows all verbs and is the reference; its
requests are written here by hand, so that a mistake in the product's own table of tools differs from them. `door`
makes the others of the entrances through which tasks are given.

Above: sides.py. Below: the server, over a socket, and the command line.
"""

import json
import re
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from molecule_core.client.api import ApiClient, ApiError
from molecule_core.wire.schemas.inbox import message_from_row
from proofs.parity.shells import Words
from testing.delegation_entrances import Entrance, Shell, Tools
from testing.running_server import ADMIN_TOKEN, Running, Seat

LEASE_SECONDS = 600
"""How long a message is lent: what the server lends it for to a tool, and the command line by its environment."""


class Told(NamedTuple):
    """What a call was told; or the words in which it was refused."""

    said: dict[str, Any]
    refused: str = ""


class Door(Protocol):
    """One entrance."""

    name: str

    def has(self, verb: str) -> bool:
        """Whether the entrance has a word for it."""

    async def call(self, server: Running, who: Seat, verb: str, given: dict[str, Any], key: str) -> Told:
        """One call by a workspace. `key`: what makes a repetition of it harmless, if the entrance has room for it."""


def door(entrance: Entrance) -> Door:
    """The one through which whoever gives tasks by this entrance does the rest. A2A's message/send is what `Rest` sends
    messages by, and has no other word."""
    if isinstance(entrance, Shell):
        return ByShell(entrance)
    if isinstance(entrance, Tools):
        return ByTools(entrance)
    return Rest()


def plainly(words: str) -> str:
    """A refusal in one line, as a shell says it."""
    return " ".join(words.split())


# -- REST --------------------------------------------------------------------------------------------------------------

_ONE_LEAVE, _AGENTS = "/workspaces/{own}/approvals/{approval_id}", "/threads/{thread_id}/agents"
_ROUTES = {
    "reply": ("POST", "/workspaces/{own}/reply"),
    "decline": ("POST", "/workspaces/{own}/decline"),
    "send_message_to_user": ("POST", "/workspaces/{own}/notify"),
    "present_options": ("POST", "/workspaces/{own}/options"),
    "broadcast_message": ("POST", "/workspaces/{own}/broadcast"),
    "inbox_pop": ("POST", "/workspaces/{own}/activity/ack"),
    "report_progress": ("POST", "/workspaces/{own}/delegations/{task_id}/status"),
    "commit_memory": ("POST", "/workspaces/{own}/memories"),
    "recall_memory": ("GET", "/workspaces/{own}/memories"),
    "forget": ("DELETE", "/workspaces/{own}/memories/{memory_id}"),
    "memories": ("GET", "/workspaces/{own}/memories"),
    "put": ("POST", "/workspaces/{own}/memory"),
    "request_approval": ("POST", "/workspaces/{own}/approvals"),
    "decide_approval": ("POST", f"{_ONE_LEAVE}/decide"),
    "person decides": ("POST", f"{_ONE_LEAVE}/decide"),
    "say more": ("POST", f"{_ONE_LEAVE}/answer"),
    "withdraw": ("POST", f"{_ONE_LEAVE}/withdraw"),
    "use": ("POST", f"{_ONE_LEAVE}/use"),
    "start": ("POST", "/workspaces/{own}/threads"),
    "fork": ("POST", "/threads/{thread_id}/fork"),
    "speak": ("POST", "/threads/{thread_id}/turns"),
    "interrupt": ("POST", "/threads/{thread_id}/interrupt"),
    "close": ("POST", "/threads/{thread_id}/close"),
    "resume": ("POST", "/threads/{thread_id}/resume"),
    "spawn_agent": ("POST", f"{_AGENTS}/spawn"),
    "send_message": ("POST", f"{_AGENTS}/send"),
    "followup_task": ("POST", f"{_AGENTS}/followup"),
    "interrupt_agent": ("POST", f"{_AGENTS}/interrupt"),
    "close_agent": ("POST", f"{_AGENTS}/close"),
    "resume_agent": ("POST", f"{_AGENTS}/resume"),
    "person rules": ("PUT", "/workspaces/{own}/approval-rules"),
    "drop": ("DELETE", "/workspaces/{own}/memory/{key}"),
    "keys": ("GET", "/workspaces/{own}/memory"),
}
"""Verbs that are one request: what does not stand in the path is its body, or its query."""
_BY_ADMIN = ("forget", "memories", "keys")
"""Verbs that the command line has for the owner of a server, and not for agents."""
_PERSON = "person "
"""What a person does whose token is given, and not the workspace that is named."""
_OTHERWISE = {"query": "q"}
_BESIDES: dict[str, dict[str, Any]] = {"request_approval": {"source": "tool"}}
"""What agents say of themselves with a call."""


class Rest:
    """The routes."""

    name = "http"

    def has(self, verb: str) -> bool:
        """All."""
        return True

    async def call(self, server: Running, who: Seat, verb: str, given: dict[str, Any], key: str) -> Told:
        """One request, or those that the verb is documented to be."""
        try:
            match verb:
                case "wait_for_message":
                    return Told({"message": await _next(who)})
                case "reply_to_workspace":
                    return Told(await _to_workspace(who, given, key))
            api = server.admin if verb in _BY_ADMIN else who.api
            if verb.startswith(_PERSON):
                api = server.api(given["token"])
            return Told(await _one(api, verb, {"own": who.id, **given}, key))
        except ApiError as error:
            return Told({}, plainly(_words(error)))


def _words(error: ApiError) -> str:
    """What a refusal says, in problem details or in JSON-RPC."""
    said = error.problem.get("error", error)
    return str(said["message"] if isinstance(said, dict) else said)


async def _one(api: ApiClient, verb: str, given: dict[str, Any], key: str) -> dict[str, Any]:
    method, pattern = _ROUTES[verb]
    path = pattern.format_map(given)
    unsaid = ("own", "token", "wait")
    rest = {name: value for name, value in given.items() if f"{{{name}}}" not in pattern and name not in unsaid}
    if verb == "request_approval" and key:
        key = f"{given['own']}:{key}"
    if "/agents/" in path:
        told = await api.post(path, {**rest, "call_id": key})
        return {"agent": told["call"]["agents"][0]}
    if method in ("GET", "DELETE"):
        query = {_OTHERWISE.get(name, name): value for name, value in rest.items()}
        told = await api.call(method, path, query=query)
    else:
        headers = {"idempotency-key": key} if key else {}
        told = await api.call(method, path, body={**rest, **_BESIDES.get(verb, {})}, headers=headers)
    return {"memories" if "memories" in path else "keys": told} if isinstance(told, list) else {"noted": True, **told}


async def _next(who: Seat) -> dict[str, Any] | None:
    """The next message, lent to its agent."""
    asked = {"claim": LEASE_SECONDS, "limit": 1, "wait": 0, "include": "peer_info,instructions"}
    rows = await who.api.get(f"/workspaces/{who.id}/activity", **asked)
    return as_tools_show(rows[0]) if rows else None


def as_tools_show(row: dict[str, Any]) -> dict[str, Any]:
    """What agents need of a message, from a row of the inbox."""
    message = message_from_row(row)
    names = ("kind", "peer_id", "activity_id", "text", "intent", "attempt", "redelivered", "reminder", "delegation_id")
    more = ("approval_id", "revision", "action_hash")
    return {**{name: getattr(message, name) for name in (*names, *more)}, "reply_handle": message.reply_handle}


async def _to_workspace(who: Seat, given: dict[str, Any], key: str) -> dict[str, Any]:
    """An answer without a handle: said, noted in one's own log if it is to a peer, and what it answers acknowledged."""
    own, peer, answers = f"/workspaces/{who.id}", given.get("peer_id", ""), given.get("activity_id", "")
    about: dict[str, Any] = {"in_reply_to": answers} if answers else {}
    about |= {"progress": True} if given.get("progress") else {}
    headers = {"idempotency-key": key}
    if peer:
        metadata = {"intent": given.get("intent", "inform"), **about}
        parts = [{"kind": "text", "text": given["text"]}]
        message = {"role": "agent", "parts": parts, "metadata": metadata, "messageId": key}
        envelope = {"jsonrpc": "2.0", "id": key, "method": "message/send", "params": {"message": message}}
        told = await who.api.call("POST", f"/workspaces/{peer}/a2a", body=envelope, headers=headers)
        noted = {"activity_type": "a2a_send", "method": "message/send", "target_id": peer, "summary": given["text"]}
        await who.api.post(f"{own}/activity", {**noted, "request_body": envelope})
    else:
        told = await who.api.call("POST", f"{own}/notify", body={"message": given["text"], **about}, headers=headers)
    acknowledged = bool(answers and not given.get("progress"))
    if acknowledged:
        try:
            await who.api.post(f"{own}/activity/ack", {"activity_id": answers, "attempt": given["attempt"]})
        except ApiError:  # the answer was sent all the same
            acknowledged = False
    return {"status": told.get("status", "sent"), "acknowledged": acknowledged}


# -- the others --------------------------------------------------------------------------------------------------------


# What a tool, and what a shell, says before the words of the server.
_STATUS, _BEFORE = re.compile(r"^\d{3}: "), re.compile(r"^molecule: (the command failed: )?(\d{3}: )?")


class ByTools:
    """The tools of the server's own MCP endpoint, by a client of MCP."""

    def __init__(self, entrance: Tools) -> None:
        self.name = entrance.name
        self._entrance = entrance

    def has(self, verb: str) -> bool:
        """What is a tool."""
        return verb in _TOOLS

    async def call(self, server: Running, who: Seat, verb: str, given: dict[str, Any], key: str) -> Told:
        """One call of a tool; its name is what a host calls it."""
        meta = {"claudecode/toolUseId": key} if key else None
        told, refused = await self._entrance.call(server, who, verb, given, meta)
        if refused is None:
            return Told(_flat(verb, told))
        return Told({}, _AFTER.sub("", _STATUS.sub("", plainly(refused.refused))))


_TOOLS = frozenset(
    """reply decline send_message_to_user present_options broadcast_message inbox_pop report_progress wait_for_message
    reply_to_workspace commit_memory recall_memory request_approval decide_approval spawn_agent
    send_message followup_task interrupt_agent close_agent resume_agent""".split()
)


def _flat(verb: str, told: dict[str, Any]) -> dict[str, Any]:
    """A message that a tool shows, in the shape of `as_tools_show`."""
    message = told.get("message")
    if verb != "wait_for_message" or message is None:
        return told
    names = {"intent": "request", "redelivered": False, "reminder": False, "delegation_id": "", "approval_id": ""}
    whole = {"revision": 0, "action_hash": "", "attempt": 0, **names, **message}
    known = ("kind", "peer_id", "activity_id", "text", *names, "attempt", "revision", "action_hash")
    handle = whole.get("instructions", {}).get("reply_handle", "")
    return {"message": {**{name: whole[name] for name in known}, "reply_handle": handle}}


# What it says behind a refusal that is a word or two: what to do.
_AFTER = re.compile(r"(?<=^broadcast_disabled) \(.*\)$|(?<=^workspace removed) \(.*\)$")


class ByShell:
    """`molecule`: its own words where it has some, else `molecule tool NAME --json -`."""

    name = "cli"

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def has(self, verb: str) -> bool:
        """What is a tool, or a word."""
        return verb in _TOOLS or Words.has(verb)

    async def call(self, server: Running, who: Seat, verb: str, given: dict[str, Any], key: str) -> Told:
        """One command. A shell has no name for a call."""
        words, spoken = Words.of(verb, {"own": who.id, **given}) or (("tool", verb, "--json", "-"), json.dumps(given))
        environ = {"MOLECULE_MCP_LEASE_SECONDS": str(LEASE_SECONDS)}
        if verb in _BY_ADMIN:
            words, environ = (*words, "--port", str(server.port)), {"MOLECULE_ADMIN_TOKEN": ADMIN_TOKEN}
        if verb.startswith(_PERSON):
            words, environ = (
                (*words, "--port", str(server.port)),
                {"MOLECULE_TOKEN": given["token"], "WORKSPACE_ID": ""},
            )
        said = await self._shell.run(server, who, *words, given=spoken, **environ)
        if not said.stdout:
            assert said.exit_code, (words, said.output, said.exception)
            # Within this process nobody has said yet what the command ends with.
            reason = said.stderr or f"molecule: {said.exception}"
            return Told({}, _AFTER.sub("", _BEFORE.sub("", plainly(reason))))
        return Told(_flat(verb, Words.read(verb, said.stdout)))


def key_of(number: int, name: str | None) -> str:
    """What a call is called: the same for both sides, and never the same for two calls that share no name."""
    return name or str(UUID(int=number))
