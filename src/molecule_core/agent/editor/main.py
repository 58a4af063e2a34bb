"""The methods of the ACP agent, and its process: `molecule acp`."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from molecule_core.agent.backoff import BackOff
from molecule_core.agent.editor.account import PersonAccount, PersonCredential, Row
from molecule_core.agent.editor.connection import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    NOT_FOUND,
    EditorConnection,
    EditorError,
    EditorMethod,
)
from molecule_core.agent.editor.org_feed import OrgFeed
from molecule_core.agent.editor.prompt_content import parse_prompt
from molecule_core.agent.editor.prompt_turn import TurnTimes
from molecule_core.agent.editor.session_files import SessionFiles, StoredSession
from molecule_core.agent.editor.sessions import EditorParts, EditorSession
from molecule_core.agent.host.stdio import Stdio
from molecule_core.common.clock import Clock, to_rfc3339
from molecule_core.common.ids import Randomness
from molecule_core.common.text import single_line
from molecule_core.common.version import VERSION

_log = logging.getLogger("molecule.agent")
Members = dict[str, Any]
PROTOCOL_VERSION = 1
TOKEN_METHOD = "molecule-token"
WORKSPACE_OPTION = "workspace"
# An image of an upload's limit (25 MiB) in Base64, and its prompt.
MAX_LINE_BYTES = 64 << 20
_CHAT_PREFIX = "chat-"
_MAX_TITLE = 80
_PAGE = 50
_ID_BITS = 128
_FIRST_WAIT, _LONGEST_WAIT = 0.25, 5.0


class EditorOptions(Struct, frozen=True):
    """What the command line chooses. `folder`: of the stored sessions; `advice`: how to get a credential."""

    find_credential: Callable[[], PersonCredential]
    folder: Path
    advice: str
    times: TurnTimes
    workspace: str | None = None
    org: str | None = None


class EditorAgent:
    """The agent of one editor."""

    def __init__(
        self, options: EditorOptions, connection: EditorConnection, clock: Clock, randomness: Randomness
    ) -> None:
        self._options = options
        self._clock = clock
        self._randomness = randomness
        self._account = PersonAccount(options.find_credential, options.org, options.advice)
        self._files = SessionFiles(options.folder)
        self._feed = OrgFeed(self._account, clock, self._new_back_off())
        self._sessions: dict[str, EditorSession] = {}
        self._parts = EditorParts(
            account=self._account,
            connection=connection,
            feed=self._feed,
            clock=clock,
            times=options.times,
            new_id=self._new_id,
            new_back_off=self._new_back_off,
        )

    def methods(self) -> Mapping[str, EditorMethod]:
        """Return what the editor may call."""
        return {
            "initialize": EditorMethod("InitializeRequest", self.initialize),
            "authenticate": EditorMethod("AuthenticateRequest", self.authenticate),
            "session/new": EditorMethod("NewSessionRequest", self.create_session),
            "session/load": EditorMethod("LoadSessionRequest", self.load_session),
            "session/resume": EditorMethod("ResumeSessionRequest", self.resume_session),
            "session/list": EditorMethod("ListSessionsRequest", self.list_sessions),
            "session/close": EditorMethod("CloseSessionRequest", self.close_session),
            "session/delete": EditorMethod("DeleteSessionRequest", self.delete_session),
            "session/set_mode": EditorMethod("SetSessionModeRequest", self.set_mode),
            "session/set_config_option": EditorMethod("SetSessionConfigOptionSelectRequest", self.set_option),
            "session/prompt": EditorMethod("PromptRequest", self.prompt),
            "session/cancel": EditorMethod("CancelNotification", self.cancel),
        }

    async def close(self) -> None:
        """End all sessions and the connections."""
        for session in tuple(self._sessions.values()):
            await session.close()
        await self._feed.close()
        await self._account.close()

    # -- handshake -----------------------------------------------------------------------------------------------------

    async def initialize(self, _params: Members) -> Members:
        """Answer with the only version, and with what this agent can do."""
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentInfo": {"name": "molecule", "title": "Molecule", "version": VERSION},
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": False, "sse": False},
                "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
            },
            "authMethods": [
                {"id": TOKEN_METHOD, "name": "Token of a person", "description": self._options.advice},
            ],
        }

    async def authenticate(self, params: Members) -> Members:
        """Find the credential, which may be there now."""
        if params["methodId"] != TOKEN_METHOD:
            raise EditorError(INVALID_PARAMS, f"The only method is {TOKEN_METHOD}.")
        await self._account.log_in()
        return {}

    # -- sessions ------------------------------------------------------------------------------------------------------

    async def create_session(self, params: Members) -> Members:
        """Create a session with the workspace of the command line, else with that of the last session."""
        await self._connect()
        if params.get("mcpServers"):
            _log.warning("the agent of a workspace does not use the MCP servers of the editor")
        workspace = self._first_workspace()
        stored = StoredSession(
            id=self._new_id(), org_id=self._account.org_id, workspace_id=workspace["id"], cwd=params["cwd"]
        )
        session = EditorSession(self._parts, stored, _prefix(stored.id))
        try:
            await session.find_end()
        except EditorError:
            await session.close()
            raise
        self._sessions[stored.id] = session
        self._save(stored)
        return {"sessionId": stored.id, **self._choices(stored.workspace_id)}

    async def load_session(self, params: Members) -> Members:
        """Open a session and send its messages."""
        session = await self._open(params)
        await session.replay()
        return self._choices(session.stored.workspace_id)

    async def resume_session(self, params: Members) -> Members:
        """Open a session without its messages."""
        session = await self._open(params)
        return self._choices(session.stored.workspace_id)

    async def _open(self, params: Members) -> EditorSession:
        await self._connect()
        session_id = str(params["sessionId"])
        if (known := self._sessions.pop(session_id, None)) is not None:
            await known.close()
        stored = self._find_stored(session_id, params["cwd"])
        if stored is None or stored.org_id != self._account.org_id:
            raise EditorError(NOT_FOUND, f"Session {session_id} does not exist.")
        if stored.workspace_id not in self._account.workspaces:
            raise EditorError(NOT_FOUND, f"The workspace of session {session_id} was removed.")
        session = EditorSession(self._parts, stored, "" if session_id.startswith(_CHAT_PREFIX) else _prefix(session_id))
        self._sessions[session_id] = session
        return session

    def _find_stored(self, session_id: str, cwd: str) -> StoredSession | None:
        if not session_id.startswith(_CHAT_PREFIX):
            return self._files.load(session_id)
        workspace_id = session_id.removeprefix(_CHAT_PREFIX)
        return StoredSession(id=session_id, org_id=self._account.org_id, workspace_id=workspace_id, cwd=cwd)

    async def list_sessions(self, params: Members) -> Members:
        """List the sessions of this machine, newest first, then the whole chats of workspaces."""
        await self._connect()
        cwd = params.get("cwd")
        found = [
            {"sessionId": each.id, "cwd": each.cwd, "title": each.title, "updatedAt": each.updated_at}
            for each in self._files.list_all()
            if each.org_id == self._account.org_id
            and each.workspace_id in self._account.workspaces
            and cwd in (None, each.cwd)
        ]
        folder = cwd or str(Path.cwd())
        found += [
            {
                "sessionId": f"{_CHAT_PREFIX}{row['id']}",
                "cwd": folder,
                "title": f"Chat with {self._account.path_of(row['id'])}",
            }
            for row in self._account.writable()
        ]
        start = _cursor_position(params.get("cursor"))
        page = found[start : start + _PAGE]
        more = {"nextCursor": str(start + _PAGE)} if start + _PAGE < len(found) else {}
        return {"sessions": page, **more}

    async def close_session(self, params: Members) -> Members:
        """Close a session; its prompts are cancelled here."""
        if (session := self._sessions.pop(str(params["sessionId"]), None)) is not None:
            await session.cancel()
            await session.close()
        return {}

    async def delete_session(self, params: Members) -> Members:
        """Close a session and list it no more. Its messages stay in the chat."""
        await self.close_session(params)
        self._files.delete(str(params["sessionId"]))
        return {}

    # -- the workspace of a session ------------------------------------------------------------------------------------

    async def set_mode(self, params: Members) -> Members:
        """Choose the workspace of a session, for editors without options of sessions."""
        session, mode = self._session(params), str(params["modeId"])
        if mode == session.stored.workspace_id:
            await self._show_mode(session.stored)
        session = await self._choose_workspace(session, mode)
        options = self._choices(session.stored.workspace_id)["configOptions"]
        await self._parts.connection.update(
            session.stored.id, {"sessionUpdate": "config_option_update", "configOptions": options}
        )
        return {}

    async def set_option(self, params: Members) -> Members:
        """Choose the workspace of a session."""
        session = self._session(params)
        if params["configId"] != WORKSPACE_OPTION:
            raise EditorError(INVALID_PARAMS, f"The only option is {WORKSPACE_OPTION}.")
        session = await self._choose_workspace(session, str(params["value"]))
        return {"configOptions": self._choices(session.stored.workspace_id)["configOptions"]}

    async def _choose_workspace(self, session: EditorSession, workspace_id: str) -> EditorSession:
        stored = session.stored
        if workspace_id == stored.workspace_id:
            return session
        if session.is_busy:
            raise EditorError(INVALID_REQUEST, "The workspace cannot change while a prompt runs. Cancel it first.")
        if stored.id.startswith(_CHAT_PREFIX):
            raise EditorError(INVALID_REQUEST, "The whole chat of a workspace has one workspace. Start a new session.")
        if workspace_id not in await self._account.load_workspaces() or not self._account.may_write:
            raise EditorError(INVALID_PARAMS, f"Workspace {workspace_id} does not exist. Choose one of the list.")
        await session.close()
        stored.workspace_id = workspace_id
        changed = EditorSession(self._parts, stored, _prefix(stored.id))
        self._sessions[stored.id] = changed
        await changed.find_end()
        self._save(stored)
        await self._show_mode(stored)
        return changed

    async def _show_mode(self, stored: StoredSession) -> None:
        update = {"sessionUpdate": "current_mode_update", "currentModeId": stored.workspace_id}
        await self._parts.connection.update(stored.id, update)

    def _first_workspace(self) -> Row:
        """Return the workspace of a new session. Raises EditorError."""
        if not (rows := self._account.writable()):
            reason = "there is no workspace" if self._account.may_write else "viewers cannot write to workspaces"
            raise EditorError(INVALID_REQUEST, f"A session cannot be created: {reason}.")
        if self._options.workspace is not None:
            return self._named_workspace(self._options.workspace)
        last = next(iter(self._files.list_all()), None)
        known = self._account.workspaces.get(last.workspace_id) if last is not None else None
        return known or next((row for row in rows if row["parent_id"] is None), rows[0])

    def _named_workspace(self, wanted: str) -> Row:
        rows = self._account.workspaces.values()
        path = "/".join(part.strip() for part in wanted.split("/"))
        found = [row for row in rows if wanted == row["id"] or path == self._account.path_of(row["id"])]
        found = found or [row for row in rows if row["name"] == wanted]
        if len(found) == 1:
            return found[0]
        problem = "does not exist" if not found else "is the name of several"
        raise EditorError(
            INVALID_PARAMS, f"Workspace {wanted!r} {problem}. Set --workspace to an id, a path or a unique name."
        )

    def _choices(self, workspace_id: str) -> Members:
        """Return the workspaces to choose from, as an option of the session and as its modes."""
        rows = {row["id"]: row for row in self._account.writable()}
        if workspace_id in self._account.workspaces:
            rows.setdefault(workspace_id, self._account.workspaces[workspace_id])
        named = [(row, self._account.path_of(row["id"])) for row in rows.values()]
        option = {
            "id": WORKSPACE_OPTION,
            "name": "Workspace",
            "description": "The workspace whose agent gets the prompts",
            "type": "select",
            "currentValue": workspace_id,
            "options": [{"value": row["id"], "name": path, "description": _describe(row)} for row, path in named],
        }
        modes = {
            "currentModeId": workspace_id,
            "availableModes": [{"id": row["id"], "name": path, "description": _describe(row)} for row, path in named],
        }
        return {"configOptions": [option], "modes": modes}

    # -- prompts -------------------------------------------------------------------------------------------------------

    async def prompt(self, params: Members) -> Members:
        """Send a prompt, and return when its turn has ended."""
        session = self._session(params)
        content = parse_prompt(params["prompt"])
        stored = session.stored
        if not stored.id.startswith(_CHAT_PREFIX):
            stored.title = stored.title or single_line(content.text, _MAX_TITLE)
            stored.updated_at, stored.has_prompts = to_rfc3339(self._clock.now()), True
            self._save(stored)
        return {"stopReason": await session.prompt(content)}

    async def cancel(self, params: Members) -> Members:
        """Cancel the prompts of a session that run."""
        if (session := self._sessions.get(str(params["sessionId"]))) is not None:
            await session.cancel()
        return {}

    def _session(self, params: Members) -> EditorSession:
        session_id = str(params["sessionId"])
        if (session := self._sessions.get(session_id)) is None:
            raise EditorError(NOT_FOUND, f"Session {session_id} is not open. Create or load it first.")
        return session

    # -- helpers -------------------------------------------------------------------------------------------------------

    async def _connect(self) -> None:
        await self._account.log_in()
        await self._account.load_workspaces()
        self._feed.start()

    def _save(self, stored: StoredSession) -> None:
        try:
            self._files.save(stored)
        except OSError as error:
            _log.warning("the session is not stored, and cannot be loaded later: %s", error)

    def _new_id(self) -> str:
        return f"{self._randomness.bits(_ID_BITS):032x}"

    def _new_back_off(self) -> BackOff:
        return BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness)


async def run_editor_agent(options: EditorOptions, clock: Clock, randomness: Randomness) -> None:
    """Serve an editor on standard input and output until it closes them."""
    stdio = await Stdio.open(MAX_LINE_BYTES)
    connection = EditorConnection(stdio)
    agent = EditorAgent(options, connection, clock, randomness)
    try:
        await connection.serve(agent.methods())
    finally:
        await agent.close()
        await stdio.close()


def _prefix(session_id: str) -> str:
    return f"acp.{session_id}."


def _describe(row: Row) -> str:
    return ", ".join(str(part) for part in (row.get("role"), row["status"]) if part)


def _cursor_position(cursor: Any) -> int:
    if cursor is None:
        return 0
    if not isinstance(cursor, str) or not cursor.isascii() or not cursor.isdigit():
        raise EditorError(INVALID_PARAMS, "The cursor is not valid. Use the nextCursor of the page before.")
    return int(cursor)
