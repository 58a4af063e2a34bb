"""An editor: a client made with the official SDK, with `molecule acp` as its agent in a process of its own."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import acp
from acp import schema

from molecule_core.wire.schemas.activity import MessageKind
from testing.processes import MOLECULE
from testing.running_server import Running, Seat
from testing.waits import PROCESS_START_SECONDS, bounded, eventually

Members = dict[str, Any]


class Question(NamedTuple):
    """A request for a permission, and the choice that answers it: the id of an option, or None."""

    session_id: str
    tool_call: Members
    options: list[Members]
    choice: asyncio.Future[str | None]


class Editor:
    """What the editor shows of its sessions, and its connection to the agent."""

    def __init__(self) -> None:
        self.updates: list[tuple[str, Members]] = []
        self.questions: asyncio.Queue[Question] = asyncio.Queue()
        self.withdrawn: list[Members] = []
        self.agent: Any = None
        self.process: Any = None
        self.greeting: Any = None

    # -- by the SDK ----------------------------------------------------------------------------------------------------

    def on_connect(self, conn: Any) -> None:
        """The connection is there."""

    async def session_update(self, session_id: str, update: Any, **_more: Any) -> None:
        """An update. The SDK has checked it against the schema."""
        self.updates.append((session_id, update.model_dump(mode="json", by_alias=True, exclude_none=True)))

    async def request_permission(self, session_id: str, tool_call: Any, options: list[Any], **_more: Any) -> Any:
        """A question to the person."""
        plain = [each.model_dump(mode="json", by_alias=True) for each in options]
        question = Question(
            session_id,
            tool_call.model_dump(mode="json", by_alias=True),
            plain,
            asyncio.get_running_loop().create_future(),
        )
        self.questions.put_nowait(question)
        chosen = await question.choice
        if chosen is None:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        return schema.RequestPermissionResponse(outcome=schema.AllowedOutcome(outcome="selected", option_id=chosen))

    async def ext_method(self, method: str, params: Members) -> Members:
        """A method of no standard."""
        raise acp.RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: Members) -> None:
        """A notification of no standard."""

    # -- by tests ------------------------------------------------------------------------------------------------------

    async def new_session(self, folder: Path) -> str:
        """The id of a new session."""
        return str((await bounded(self.agent.new_session(cwd=str(folder), mcp_servers=[]))).session_id)

    def prompt(self, session_id: str, *blocks: Any) -> "asyncio.Task[Any]":
        """A prompt that runs: texts or blocks."""
        built = [acp.text_block(each) if isinstance(each, str) else each for each in blocks]
        return asyncio.create_task(self.agent.prompt(session_id=session_id, prompt=built))

    def text(self, session_id: str, kind: str = "agent_message_chunk") -> str:
        """The text that a session shows."""
        chunks = (update for one, update in self.updates if one == session_id and update["sessionUpdate"] == kind)
        return "".join(chunk["content"].get("text", "") for chunk in chunks)

    def of_kind(self, session_id: str, *kinds: str) -> list[Members]:
        """The updates of some kinds."""
        return [update for one, update in self.updates if one == session_id and update["sessionUpdate"] in kinds]

    async def shows(self, session_id: str, text: str, kind: str = "agent_message_chunk") -> None:
        """Waits until a session shows a text."""

        async def look() -> str:
            return self.text(session_id, kind)

        await eventually(look, lambda shown: text in shown, PROCESS_START_SECONDS)

    async def shows_call(self, session_id: str, wanted: Callable[[Members], bool]) -> Members:
        """Waits for an update of a tool call."""

        async def look() -> Members | None:
            calls = self.of_kind(session_id, "tool_call", "tool_call_update")
            return next((each for each in calls if wanted(each)), None)

        found = await eventually(look, lambda call: call is not None, PROCESS_START_SECONDS)
        assert found is not None
        return found


def editor_environment(url: str, state: Path, token: str | None) -> dict[str, str]:
    """The environment in which an editor starts the command."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MOLECULE_", "ADMIN_"))}
    own = {"MOLECULE_URL": url, "MOLECULE_STATE_DIR": str(state)}
    return {**kept, **own, **({"MOLECULE_TOKEN": token} if token else {})}


@contextlib.asynccontextmanager
async def editing(url: str, state: Path, token: str | None, *flags: str) -> AsyncIterator[Editor]:
    """An editor that has started the agent and shaken its hand, until the block ends."""
    editor = Editor()
    environment = editor_environment(url, state, token)
    started = acp.spawn_agent_process(
        editor,  # type: ignore[arg-type]
        *(sys.executable, MOLECULE, "acp", *flags),
        env=environment,
        cwd=state,
        transport_kwargs={"stderr": None, "limit": 1 << 26},
        use_unstable_protocol=True,
    )
    async with started as (connection, process):
        editor.agent, editor.process = connection, process
        async with asyncio.timeout(PROCESS_START_SECONDS):
            editor.greeting = await connection.initialize(protocol_version=1)
        yield editor


async def person_token(server: Running, name: str = "Ada", role: str = "operator") -> str:
    """The token of a new person."""
    org_id = (await server.admin.get("/orgs"))[0]["id"]
    answer = await server.admin.post(f"/orgs/{org_id}/people", {"name": name, "role": role})
    return str(answer["auth_token"])


class ScriptedAgent:
    """The agent of a workspace, played by the test."""

    def __init__(self, seat: Seat) -> None:
        self.seat = seat

    async def is_online(self) -> None:
        """Sends a heartbeat."""
        await self.seat.api.post("/registry/heartbeat", {"workspace_id": self.seat.id})

    async def message(self) -> Members:
        """Claims the next message of a person, and acknowledges it."""

        async def claim() -> list[Members]:
            return await self.seat.api.claim(self.seat.id, wait=1, limit=1, include="attachments")

        while True:
            rows = await eventually(claim, bool, PROCESS_START_SECONDS)
            for row in rows:
                await self.seat.api.ack(self.seat.id, row)
            if written := [row for row in rows if row["kind"] == MessageKind.USER]:
                return written[0]

    async def live(self, message: Members, *events: Members) -> Members:
        """Reports what it does; returns what people want."""
        body = {"activity_id": message["id"], "events": list(events)}
        return dict(await self.seat.api.post(f"/workspaces/{self.seat.id}/live", body))

    async def answer(self, message: Members, text: str) -> None:
        """Answers a message."""
        body = {"message": text, "in_reply_to": message["id"]}
        await self.seat.api.post(f"/workspaces/{self.seat.id}/notify", body)

    async def request_approval(self, action: str) -> Members:
        """Requests an approval."""
        body = {"action": action, "reason": "It is late", "details": {"amount": 7}}
        return dict(await self.seat.api.post(f"/workspaces/{self.seat.id}/approvals", body))


def words_of(message: Members) -> str:
    """The text of a message."""
    parts = message["request_body"]["params"]["message"]["parts"]
    return "".join(part["text"] for part in parts if part["kind"] == "text")
