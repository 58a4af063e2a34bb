"""The five ways by which a workspace delegates, behind one face: what a test says once holds for all of them.

`Giving` uses a `MessageWorld` through one of them. `CANNOT` lists what an entrance has no word for, with the reason.
"""

import asyncio
import re
from collections.abc import Mapping
from typing import Any, Protocol

from click.testing import CliRunner, Result
from msgspec import Struct

from molecule_core.cli import molecule
from molecule_core.client.api import ApiError
from molecule_core.common.errors import MoleculeError
from molecule_core.wire.protocols.a2a import DELEGATION_EXTENSION
from testing.delegation_steps import row_of
from testing.mcp_clients import Era, hosted
from testing.message_world import MessageWorld
from testing.raw_http import Reply, ask
from testing.running_server import Running, Seat
from testing.waits import PROCESS_START_SECONDS, bounded, eventually

LONG = 300
"""So many seconds a caller waits that waits as long as it may."""
_ENDED = ("completed", "failed", "cancelled")

CANNOT: dict[tuple[str, str], str] = {
    ("mcp_async", "wait"): "delegate_task_async returns at once: that is what it is for",
    ("cli", "key"): "a shell has no name for a call; a repetition is known by caller, target and task while it is open",
    ("cli", "code"): "a shell says a refusal in words; the exit code tells only that there was one",
    ("cli", "delivered"): "what a shell prints was handed over; it has no word for that beside it",
    ("a2a", "status"): "message/send has no second method for it; REST shows the task under the same id",
    ("a2a_1_0", "status"): "GetTask has other words for it; REST shows the task under the same id",
    ("a2a", "cancel"): "message/send has no second method for it; REST cancels the task under the same id",
}
"""What an entrance has no word for. Tests leave that out for it, or use what the reason names."""


class Begun(Struct, frozen=True, kw_only=True):
    """What a caller was told of a task that it gave."""

    delegation_id: str = ""
    status: str = ""
    settled: bool = False
    text: str = ""
    """Its result, if the caller was handed it."""
    reason: str = ""
    delivered: str = ""
    hit: bool = False
    refused: str = ""
    """The words of a refusal."""
    code: str = ""
    """Its short name."""
    call: "asyncio.Task[Begun] | None" = None
    """The call that still waits for the result."""


class Seen(Struct, frozen=True, kw_only=True):
    """How a task stands, for who asks."""

    delegation_id: str
    status: str
    phase: str
    result: str
    reason: str
    facts: tuple[str, ...]
    """Its time line; `late` stands behind those that came too late."""


class Entrance(Protocol):
    """One way to delegate."""

    name: str

    async def begin(
        self,
        server: Running,
        who: Seat,
        target: str,
        task: str,
        *,
        key: str | None = None,
        wait: int = 0,
        deadline: int | None = None,
        may: dict[str, Any] | None = None,
    ) -> Begun:
        """A workspace gives a task; returns when the call is over."""

    async def status(self, server: Running, who: Seat, delegation_id: str) -> Seen:
        """How a task stands."""

    async def cancel(self, server: Running, who: Seat, delegation_id: str) -> Begun:
        """A workspace takes a task back."""


def can(entrance: Entrance, word: str) -> bool:
    """Whether an entrance has a word for something."""
    return (entrance.name, word) not in CANNOT


# -- REST --------------------------------------------------------------------------------------------------------------


class Http:
    """POST .../delegate."""

    name = "http"

    async def begin(
        self,
        server: Running,
        who: Seat,
        target: str,
        task: str,
        *,
        key: str | None = None,
        wait: int = 0,
        deadline: int | None = None,
        may: dict[str, Any] | None = None,
    ) -> Begun:
        body: dict[str, Any] = {"target_id": target, "task": task, "wait": wait, "may": may}
        if deadline is not None:
            body["deadline_seconds"] = deadline
        headers = {} if key is None else {"Idempotency-Key": key}
        return _of_rest(
            await ask(server.port, "POST", f"/workspaces/{who.id}/delegate", body, token=who.token, headers=headers)
        )

    async def status(self, server: Running, who: Seat, delegation_id: str) -> Seen:
        full = await who.api.get(f"/delegations/{delegation_id}")
        return _seen(full["delegation"], full["delegation"]["phase"], full["result"], full["timeline"])

    async def cancel(self, server: Running, who: Seat, delegation_id: str) -> Begun:
        path = f"/workspaces/{who.id}/delegations/{delegation_id}/cancel"
        return _of_rest(await ask(server.port, "POST", path, {}, token=who.token))


def _of_rest(reply: Reply) -> Begun:
    told = reply.json
    if reply.status >= 400:
        return Begun(refused=told["error"], code=told["code"])
    status = told.get("state") or told["status"]
    return Begun(
        delegation_id=told["delegation_id"],
        status=status,
        settled=status in _ENDED,
        text=told.get("result") or "",
        reason=told.get("reason") or "",
        delivered=told.get("delivered", ""),
        hit=told.get("idempotent_hit", False),
    )


def _seen(told: Mapping[str, Any], phase: str, result: str | None, line: list[dict[str, Any]]) -> Seen:
    return Seen(
        delegation_id=told["delegation_id"],
        status=told["status"],
        phase=phase,
        result=result or "",
        reason=told["reason"] or "",
        facts=tuple(f"{each['fact']} late" if each["late"] else each["fact"] for each in line),
    )


# -- A2A ---------------------------------------------------------------------------------------------------------------


class MessageSend(Http):
    """A2A `message/send` with a message that says that it is a delegation."""

    name = "a2a"

    async def begin(
        self,
        server: Running,
        who: Seat,
        target: str,
        task: str,
        *,
        key: str | None = None,
        wait: int = 0,
        deadline: int | None = None,
        may: dict[str, Any] | None = None,
    ) -> Begun:
        message: dict[str, Any] = {"kind": "message", "role": "user", "parts": [{"kind": "text", "text": task}]}
        message["metadata"] = {"delegation": True, **({} if may is None else {"may": may})}
        if key is not None:
            message["messageId"] = key
        params: dict[str, Any] = {"message": message}
        if deadline is not None:
            params["expires_in_seconds"] = deadline
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params}
        path, headers = f"/workspaces/{target}/a2a", {"X-Timeout": str(wait)}
        reply = await ask(server.port, "POST", path, body, token=who.token, headers=headers)
        return _of_task(reply.json) if reply.status < 400 else _of_rpc(reply.json)


class SendMessage(Http):
    """A2A 1.0: `SendMessage` with a message that says that it is a delegation, and `CancelTask`."""

    name = "a2a_1_0"

    async def begin(
        self,
        server: Running,
        who: Seat,
        target: str,
        task: str,
        *,
        key: str | None = None,
        wait: int = 0,
        deadline: int | None = None,
        may: dict[str, Any] | None = None,
    ) -> Begun:
        metadata = {"delegation": True, **({} if may is None else {"may": may})}
        message = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": task}], "metadata": metadata}
        params: dict[str, Any] = {"message": message}
        if deadline is not None:
            params["metadata"] = {"expires_in_seconds": float(deadline)}  # as clients made from the schema send it
        headers = {"X-Timeout": str(wait), **({} if key is None else {"Idempotency-Key": key})}
        reply = await _call_1_0(server, who, target, "SendMessage", params, headers)
        if reply.status >= 400 or "error" in reply.json:
            return _of_rpc(reply.json)
        return _of_task({"result": reply.json["result"]["task"]})

    async def cancel(self, server: Running, who: Seat, delegation_id: str) -> Begun:
        full = await who.api.get(f"/delegations/{delegation_id}")
        reply = await _call_1_0(server, who, full["delegation"]["target_id"], "CancelTask", {"id": delegation_id}, {})
        if "error" in reply.json:  # an ended one: REST answers how it ended
            return await super().cancel(server, who, delegation_id)
        about = reply.json["result"]["metadata"][DELEGATION_EXTENSION]
        status, reason = about["status"], about.get("reason", "")
        return Begun(delegation_id=delegation_id, status=status, settled=status in _ENDED, reason=reason)


async def _call_1_0(
    server: Running, who: Seat, target: str, method: str, params: dict[str, Any], headers: dict[str, str]
) -> Reply:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    path, sent = f"/workspaces/{target}/a2a", {"A2A-Version": "1.0", "Content-Type": "application/json", **headers}
    return await ask(server.port, "POST", path, body, token=who.token, headers=sent)


def _of_task(told: dict[str, Any]) -> Begun:
    task = told["result"]
    about, parts = task["metadata"], [part for each in task.get("artifacts", ()) for part in each["parts"]]
    assert about["delegation_id"] == task["id"]
    return Begun(
        delegation_id=task["id"],
        status=about["status"],
        settled=about["status"] in _ENDED,
        text="".join(part["text"] for part in parts),
        delivered=about.get("delivered", ""),
        hit=about.get("idempotent_hit", False),
    )


def _of_rpc(told: dict[str, Any]) -> Begun:
    error = told["error"]
    if isinstance(error, str):
        return Begun(refused=error, code=told["code"])
    return Begun(refused=error["message"], code=_code_of(error["data"]))


def _code_of(data: list[dict[str, str]]) -> str:
    (info,) = data
    return info["reason"].lower()


# -- MCP ---------------------------------------------------------------------------------------------------------------


class Tools:
    """The tools, by a client of MCP. The sync one waits for the result."""

    def __init__(self, name: str, tool: str, era: Era) -> None:
        self.name = name
        self._tool = tool
        self._era: Era = era

    async def begin(
        self,
        server: Running,
        who: Seat,
        target: str,
        task: str,
        *,
        key: str | None = None,
        wait: int = 0,
        deadline: int | None = None,
        may: dict[str, Any] | None = None,
    ) -> Begun:
        given: dict[str, Any] = {"workspace_id": target, "task": task}
        if can(self, "wait"):
            given["wait"] = wait
        if deadline is not None:
            given["deadline_seconds"] = deadline
        if may is not None:
            given["may"] = may
        meta = None if key is None else {"claudecode/toolUseId": key}
        return _of_tool(*await self.call(server, who, self._tool, given, meta))

    async def status(self, server: Running, who: Seat, delegation_id: str) -> Seen:
        told, refused = await self.call(server, who, "check_task_status", {"task_id": delegation_id})
        assert refused is None, refused
        return _seen({**told, "delegation_id": told["task_id"]}, told["phase"], told["result"], told["timeline"])

    async def cancel(self, server: Running, who: Seat, delegation_id: str) -> Begun:
        return _of_tool(*await self.call(server, who, "cancel_task", {"task_id": delegation_id}))

    async def call(
        self, server: Running, who: Seat, tool: str, given: dict[str, Any], meta: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], Begun | None]:
        """What a tool gives, or its refusal."""
        shut_out = await _shut_out(who)
        if shut_out is not None:  # a client of MCP cannot even begin a session
            return {}, shut_out
        async with hosted(server, who.token, self._era) as host:
            await host.client.list_tools()  # as hosts do first: it checks results by that, also for a seat that is gone
            result = await host.client.call_tool(tool, given, meta=meta)  # type: ignore[arg-type]
        if result.is_error:
            words = result.content[0].text  # type: ignore[union-attr]
            return {}, Begun(refused=words, code=(result.meta or {})["molecule/code"])
        return result.structured_content or {}, None


async def _shut_out(who: Seat) -> Begun | None:
    """The refusal that meets whatever this agent asks, if it was removed."""
    try:
        await who.api.get(f"/workspaces/{who.id}")
    except ApiError as error:
        return Begun(refused=str(error), code=error.code)
    return None


def _of_tool(told: dict[str, Any], refused: Begun | None) -> Begun:
    if refused is not None:
        return refused
    return Begun(
        delegation_id=told["task_id"],
        status=told["status"],
        settled=told["status"] in _ENDED,
        text=told["result"],
        reason=told["reason"],
        delivered=told.get("delivered", ""),
        hit=told.get("idempotent_hit", False),
    )


# -- a shell -----------------------------------------------------------------------------------------------------------


class Shell:
    """`molecule delegate`, `status`, `cancel`."""

    name = "cli"

    def __init__(self) -> None:
        # The runner lends the commands its own output and environment, which are those of the process.
        self._turn = asyncio.Semaphore(1)

    async def begin(
        self,
        server: Running,
        who: Seat,
        target: str,
        task: str,
        *,
        key: str | None = None,
        wait: int = 0,
        deadline: int | None = None,
        may: dict[str, Any] | None = None,
    ) -> Begun:
        assert key is None, CANNOT["cli", "key"]
        words = ["delegate", target, task, *(["--wait", str(wait)] if wait else ["--async"])]
        if deadline is not None:
            words += ["--deadline", str(deadline)]
        for each in (may or {}).get("tools", ()):
            words += ["--tool", each]
        return _of_shell(await self.run(server, who, *words))

    async def status(self, server: Running, who: Seat, delegation_id: str) -> Seen:
        said = await self.run(server, who, "status", delegation_id)
        assert said.exit_code == 0, said.output
        return _read_status(said.stdout)

    async def cancel(self, server: Running, who: Seat, delegation_id: str) -> Begun:
        said = await self.run(server, who, "cancel", delegation_id)
        if said.exit_code:
            return _of_shell(said)
        seen = _read_status(said.stdout)
        return Begun(delegation_id=seen.delegation_id, status=seen.status, settled=True, reason=seen.reason)

    async def run(self, server: Running, who: Seat, *words: str, given: str = "", **environ: str) -> Result:
        """What a command says. `given`: what it may read from its standard input."""
        env = {"WORKSPACE_ID": who.id, "MOLECULE_WORKSPACE_TOKEN": who.token, "PLATFORM_URL": server.url, **environ}
        async with self._turn, asyncio.timeout(PROCESS_START_SECONDS):
            return await asyncio.to_thread(CliRunner().invoke, molecule, words, input=given, env=env)


def _of_shell(said: Result) -> Begun:
    if not said.stdout:
        assert said.exit_code, said
        return Begun(refused=said.stderr.removeprefix("molecule: ").strip())
    first, _, rest = said.stdout.partition("\n")
    delegation_id, status = first.split()
    text = rest.removesuffix("\n")
    return Begun(
        delegation_id=delegation_id,
        status=status,
        settled=status in _ENDED,
        text=text,
        reason=_named(r"^molecule: (\w+): ", said.stderr),
        delivered="here" if text else "",
        hit="already delegated" in said.stderr,
    )


_LINE = re.compile(r"^  \S+  (\w+) +\w+/\w+(?:  .*?)?(  \(late, no effect\))?$")


def _read_status(text: str) -> Seen:
    first, *lines = text.splitlines()
    head = re.match(r"^(\S+)  (\w+) \((\w+)", first)
    assert head is not None, text
    facts = [found for found in map(_LINE.match, lines) if found is not None]
    rest = lines[len(facts) :]
    if rest and rest[0].startswith("progress: "):  # how far it was
        del rest[0]
    reason = _named(r"^(\w+): ", rest[0]) if rest and head[2] in ("failed", "cancelled") else ""
    return Seen(
        delegation_id=head[1],
        status=head[2],
        phase=head[3],
        result="" if reason else "\n".join(rest),
        reason=reason,
        facts=tuple(f"{each[1]} late" if each[2] else each[1] for each in facts),
    )


def _named(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return "" if found is None else found[1]


def entrances() -> tuple[Entrance, ...]:
    """All of them, the reference first."""
    return (
        Http(),
        Tools("mcp_sync", "delegate_task", "handshake"),
        Tools("mcp_async", "delegate_task_async", "stateless"),
        MessageSend(),
        Shell(),
    )


def tested_entrances() -> tuple[Entrance, ...]:
    """Those, and the other line of A2A."""
    return (*entrances(), SendMessage())


NAMES = tuple(each.name for each in tested_entrances())


# -- a world that delegates through one of them ------------------------------------------------------------------------


class Giving:
    """A world whose workspaces delegate by one entrance. Who can wait for a result (the sync tool) waits."""

    def __init__(self, world: MessageWorld, entrance: Entrance) -> None:
        self.world = world
        self.entrance = entrance
        self._calls: list[asyncio.Task[Begun]] = []

    @property
    def waits(self) -> bool:
        """Whether callers wait for the result."""
        return self.entrance.name == "mcp_sync"

    def key(self, name: str) -> str | None:
        """A name for a call, where the entrance has room for one."""
        return name if can(self.entrance, "key") else None

    async def call(self, who: Seat, target: Seat | str, task: str = "sort the mail", **more: Any) -> Begun:
        """One call, until it is over."""
        target_id = target if isinstance(target, str) else target.id
        async with asyncio.timeout(PROCESS_START_SECONDS):
            return await self.entrance.begin(self.world.server, who, target_id, task, **more)

    async def begin(self, who: Seat, target: Seat, task: str = "sort the mail", **more: Any) -> Begun:
        """A task is given, and is there; who waits for its result waits on."""
        if not self.waits:
            return await self.call(who, target, task, **more)
        known = {row["delegation_id"] for row in await self.given(who)}
        call = asyncio.create_task(self.entrance.begin(self.world.server, who, target.id, task, wait=LONG, **more))
        self._calls.append(call)

        async def new() -> list[dict[str, Any]]:
            return [row for row in await self.given(who) if row["delegation_id"] not in known]

        rows = await eventually(new, lambda found: bool(found) or call.done())
        if not rows:
            return await bounded(call)
        return Begun(delegation_id=rows[0]["delegation_id"], status=rows[0]["status"], call=call)

    async def given(self, who: Seat) -> list[dict[str, Any]]:
        """What a workspace has delegated, newest first."""
        found: list[dict[str, Any]] = await who.api.get(f"/workspaces/{who.id}/delegations", limit=100)
        return found

    async def seen(self, who: Seat, begun: Begun) -> Seen:
        """How a task stands, by the words of the entrance."""
        return await bounded(self.entrance.status(self.world.server, who, begun.delegation_id))

    async def over(self, who: Seat, begun: Begun) -> Seen:
        """The same, once it has ended; time stands still meanwhile."""

        async def look() -> bool:
            await self.world.clock.advance(0)
            return (await row_of(self.world, begun.delegation_id)).status.is_ended

        await eventually(look, bool)
        return await self.seen(who, begun)

    async def learns(self, who: Seat, begun: Begun) -> Begun:
        """What its caller knows in the end: by the call that waited, else by asking."""
        if begun.call is not None:
            told = await bounded(begun.call)
            if told.settled:
                return told
        seen = await self.over(who, begun)
        return Begun(delegation_id=seen.delegation_id, status=seen.status, text=seen.result, reason=seen.reason)

    async def comes(self, who: Seat, *all_begun: Begun) -> list[str]:
        """Every result that these callers were handed, here or in the inbox, in that order. (The inbox is
        emptied of them.)"""
        here = [told for told in [await bounded(each.call) for each in all_begun if each.call] if told.settled]
        found = [f"{told.status} {told.text}".strip() for told in here if told.delivered == "here"]
        rows = [row for row in await self.world.take(who) if row["kind"] == "delegation_result"]
        ids = {each.delegation_id for each in all_begun}
        for row in rows:
            await who.api.ack(who.id, row)
            body = row["response_body"]
            if body["delegation_id"] in ids:
                text = body["text"] if body["status"] == "completed" else ""
                found.append(f"{body['status']} {text}".strip())
        return found

    def refuses(self, begun: Begun, error: type[MoleculeError], code: str) -> bool:
        """Whether a call was refused with this error, in its words and, where the entrance has one, its short name."""
        words = (error.__doc__ or "").split("{")[0].strip()
        return words in begun.refused and begun.code == (code if can(self.entrance, "code") else "")

    async def close(self) -> None:
        """Nobody waits any more."""
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
