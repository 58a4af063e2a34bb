"""Routes of threads for people and agents: start, read, steer, stop, fork, resume and close them."""

from typing import Any

from molecule_core.access.model import CredentialKind, Role
from molecule_core.api.http.response import Response
from molecule_core.api.query_parameters import (
    BEFORE,
    LIMIT,
    enum_param,
    int_param,
    query_params,
    read_int_param,
    read_text_param,
    string_param,
)
from molecule_core.api.rate_limits import SEND_RATE
from molecule_core.api.routing import ALL_CREDENTIALS, AccessPolicy, Request, Route, WorkspaceScope, json_response
from molecule_core.common.errors import InvalidField, NotFound
from molecule_core.common.limits import Limits
from molecule_core.common.text import ID_ALPHABET, is_valid_client_id, validate_line
from molecule_core.live_turns.writer import LiveTurnWriter
from molecule_core.org.reader import OrgReader
from molecule_core.prompts.reader import PromptReader
from molecule_core.threads.base_instructions import BaseInstructions, make_base_instructions
from molecule_core.threads.errors import BaseInstructionsRequired
from molecule_core.threads.model import Thread, ThreadSettings
from molecule_core.threads.reader import STATES, ThreadReader
from molecule_core.threads.writer import ThreadWriter
from molecule_core.wire.schemas.thread_log import Author, TextInput
from molecule_core.wire.schemas.threads import (
    CloseThreadBody,
    CollabPage,
    EntryPage,
    ForkThreadBody,
    InterruptThreadBody,
    ModelContext,
    StartThreadBody,
    StartTurnBody,
    ThreadItem,
    ThreadOverrides,
    ThreadPage,
    ThreadTreeView,
    ThreadView,
    TurnResponse,
)


class ThreadAccess:
    """Access control of threads."""

    def __init__(self, reader: ThreadReader, org: OrgReader) -> None:
        self._reader = reader
        self._org = org

    async def find_readable(self, request: Request) -> Thread:
        """Return the thread of the path, if the caller may read it. Raises NotFound.

        People of its organisation, its own workspace, and the workspace in which its tree begins may read it.
        """
        thread = await self._find_in_org(request)
        if thread.workspace_id != (await self.readable_workspace(request, thread) or thread.workspace_id):
            raise NotFound(what="thread")
        return thread

    async def readable_workspace(self, request: Request, thread: Thread) -> str | None:
        """Return the only workspace whose threads the caller may read in the tree of a thread, or None for all.

        A workspace reads only its own threads if the tree begins in another one.
        """
        if request.caller.kind is not CredentialKind.WORKSPACE:
            return None
        root = thread if thread.thread_id == thread.root_id else await self._reader.find_thread(thread.root_id)
        return None if root is not None and root.workspace_id == request.caller.id else request.caller.id

    async def find_drivable(self, request: Request) -> Thread:
        """Return the thread of the path, if the caller may drive it. Raises NotFound.

        People (whose role is checked already) and its own workspace may drive it.
        """
        thread = await self._find_in_org(request)
        if request.caller.kind is CredentialKind.WORKSPACE and thread.workspace_id != request.caller.id:
            raise NotFound(what="thread")
        return thread

    async def _find_in_org(self, request: Request) -> Thread:
        thread = await self._reader.get_thread(request.path_param("thread_id", "thread"))
        if (
            request.caller.kind is not CredentialKind.ADMIN and thread.org_id != request.caller.org_id
        ):  # control: thread-org
            raise NotFound(what="thread")
        return thread

    def author_of(self, request: Request) -> Author:
        """Return the author of a change, as the credential proves it."""
        if request.caller.kind is not CredentialKind.WORKSPACE:
            return Author("person", request.caller.id, request.caller.name)
        workspace = self._org.workspace(request.caller.id)
        return Author("workspace", request.caller.id, "" if workspace is None else workspace.name)


class ThreadRoutes:
    """Routes of threads for clients."""

    def __init__(
        self,
        writer: ThreadWriter,
        reader: ThreadReader,
        prompts: PromptReader,
        org: OrgReader,
        live_turns: LiveTurnWriter,
        *,
        limits: Limits,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._prompts = prompts
        self._org = org
        self._live_turns = live_turns
        self._access = ThreadAccess(reader, org)
        self._limits = limits

    def routes(self) -> list[Route]:
        """Return the routes."""
        every, one = "/workspaces/{id}/threads", "/threads/{thread_id}"
        own, viewer = (
            AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.OWN, Role.OPERATOR),
            AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.OWN),
        )
        drive, see = AccessPolicy(ALL_CREDENTIALS, role=Role.OPERATOR), AccessPolicy(ALL_CREDENTIALS)
        item, turn = ThreadItem, TurnResponse
        found = query_params(
            LIMIT,
            BEFORE,
            enum_param("state", "Filter by state.", STATES),
            string_param("parent", "Only threads directly below this one."),
            string_param("ancestor", "All threads below this one."),
        )
        paged = query_params(LIMIT, int_param("after", "Page forwards from this ordinal."))
        return [
            Route(
                "POST",
                every,
                self.start_thread,
                own,
                "Start a thread",
                StartThreadBody,
                item,
                201,
                body_optional=True,
                rate_class=SEND_RATE,
            ),
            Route(
                "GET",
                every,
                self.list_threads,
                viewer,
                "List the threads of a workspace",
                None,
                ThreadPage,
                query=found,
                keeps_history=True,
            ),
            Route("GET", one, self.get_thread, see, "Get a thread", None, ThreadView),
            Route(
                "GET",
                f"{one}/items",
                self.list_items,
                see,
                "List the log entries of a thread",
                None,
                EntryPage,
                query=paged,
            ),
            Route(
                "GET",
                f"{one}/sight",
                self.get_model_context,
                see,
                "Get the context that the model will see",
                None,
                ModelContext,
            ),
            Route("GET", f"{one}/tree", self.get_tree, see, "Get the tree of a thread", None, ThreadTreeView),
            Route(
                "GET",
                f"{one}/collab",
                self.get_collab,
                see,
                "List calls and messages in a thread's tree",
                None,
                CollabPage,
            ),
            Route(
                "POST",
                f"{one}/turns",
                self.start_turn,
                drive,
                "Send input to a thread",
                StartTurnBody,
                turn,
                202,
                rate_class=SEND_RATE,
            ),
            Route(
                "POST",
                f"{one}/compact",
                self.compact_thread,
                drive,
                "Summarize the conversation of a thread",
                None,
                turn,
                202,
            ),
            Route(
                "POST",
                f"{one}/interrupt",
                self.interrupt_turn,
                drive,
                "Stop the running turn of a thread",
                InterruptThreadBody,
                item,
                body_optional=True,
            ),
            Route(
                "POST",
                f"{one}/close",
                self.close_thread,
                drive,
                "Close a thread",
                CloseThreadBody,
                item,
                body_optional=True,
            ),
            Route(
                "POST",
                f"{one}/resume",
                self.resume_thread,
                drive,
                "Resume a thread",
                ThreadOverrides,
                ThreadView,
                body_optional=True,
            ),
            Route(
                "POST",
                f"{one}/fork",
                self.fork_thread,
                drive,
                "Fork a thread",
                ForkThreadBody,
                ThreadView,
                201,
                body_optional=True,
            ),
        ]

    # -- start ---------------------------------------------------------------------------------------------------------

    async def start_thread(self, request: Request) -> Response:
        """Start a thread.

        Its base instructions are those in the request, else the last prompt that the workspace's agent reported. They
        are stored permanently.
        """
        body = request.parse_body(StartThreadBody)
        thread = await self._writer.start(
            request.workspace,
            await self._base_instructions(request.workspace.id, body.base_instructions),
            self._thread_settings(body),
            by=self._access.author_of(request),
            nickname=self._clean_line(body.nickname, "nickname"),
            role=self._clean_line(body.role or "", "role") or None,
            texts=[] if body.input is None else checked_inputs(body.input, self._limits),
            key=thread_idempotency_key(request, body.key, self._limits),
        )
        return json_response(await self._reader.to_item(thread), 201)

    async def _base_instructions(self, workspace_id: str, override: str | None) -> BaseInstructions:
        if override is not None:
            return make_base_instructions(self._check_text(override, "base_instructions"), "override", "given on start")
        stored = await self._prompts.latest_prompts(workspace_id)
        if not stored:
            raise BaseInstructionsRequired
        return make_base_instructions(
            self._prompts.prompt_text(stored[0]), "prompt", f"prompt revision {stored[0].revision}"
        )

    async def fork_thread(self, request: Request) -> Response:
        """Fork a thread.

        Base instructions, model, effort, tools and permissions are those of the source, unless the request sets them.
        """
        body, source = request.parse_body(ForkThreadBody), await self._access.find_drivable(request)
        workspace = self._org.workspace(source.workspace_id)
        if workspace is None or workspace.removed:
            raise NotFound(what="workspace")
        thread = await self._writer.fork(
            source,
            workspace,
            self._thread_settings(body),
            by=self._access.author_of(request),
            position=body.position,
            nickname=self._clean_line(body.nickname, "nickname"),
            key=thread_idempotency_key(request, body.key, self._limits),
        )
        return json_response(await self._reader.to_view(thread), 201)

    async def resume_thread(self, request: Request) -> Response:
        """Resume a thread. Changed settings are stored as a new version and returned."""
        settings, thread = (
            self._thread_settings(request.parse_body(ThreadOverrides)),
            await self._access.find_drivable(request),
        )
        resumed = await self._writer.resume(thread, self._access.author_of(request), settings)
        return json_response(await self._reader.to_view(resumed))

    def _thread_settings(self, body: StartThreadBody | ThreadOverrides) -> ThreadSettings:
        limits = self._limits
        for name in ("base_instructions", "developer", "context"):
            text = getattr(body, name)
            if text is not None:
                self._check_text(text, name)
        for each in body.tools or ():
            validate_line(each, limits.short_text_length, "tools")
        return ThreadSettings(
            base=body.base_instructions,
            developer=body.developer,
            context=body.context,
            model=self._clean_line(body.model or "", "model") or None,
            effort=self._clean_line(body.effort or "", "effort") or None,
            tools=body.tools,
            permissions=body.permissions,
        )

    # -- turns ---------------------------------------------------------------------------------------------------------

    async def start_turn(self, request: Request) -> Response:
        """Add input to the running turn, or to a new one. Responds with 202 as soon as the input is stored."""
        body, thread = request.parse_body(StartTurnBody), await self._access.find_drivable(request)
        result = await self._writer.submit_input(
            thread,
            checked_inputs(body.input, self._limits),
            by=self._access.author_of(request),
            mode=body.mode,
            expected=body.expected_turn_id,
            key=thread_idempotency_key(request, body.key, self._limits),
        )
        return json_response(result, 202)

    async def compact_thread(self, request: Request) -> Response:
        """Start a turn in which the engine summarizes the conversation."""
        thread = await self._access.find_drivable(request)
        return json_response(await self._writer.compact(thread, self._access.author_of(request)), 202)

    async def interrupt_turn(self, request: Request) -> Response:
        """End the running turn at once. `descendants`: detach (leave them as they are) or interrupt."""
        body, thread = request.parse_body(InterruptThreadBody), await self._access.find_drivable(request)
        author = self._access.author_of(request)
        interrupted = await self._writer.interrupt(thread, author, body.descendants)
        if author.kind == "person":  # the program that runs the turn must not learn of it with its next request only
            await self._live_turns.request_thread_stop(
                thread.org_id, thread.workspace_id, thread.thread_id, author.name
            )
        return await self._thread_response(interrupted)

    async def close_thread(self, request: Request) -> Response:
        """Close a thread: it accepts no more input. `descendants`: detach (leave as they are), interrupt or close."""
        body, thread = request.parse_body(CloseThreadBody), await self._access.find_drivable(request)
        return await self._thread_response(
            await self._writer.close(thread, self._access.author_of(request), body.descendants)
        )

    async def _thread_response(self, thread: Thread) -> Response:
        return json_response(await self._reader.to_item(thread))

    # -- read ----------------------------------------------------------------------------------------------------------

    async def list_threads(self, request: Request) -> Response:
        """List threads of a workspace, newest first.

        `state`: a status, open or closed; `parent`: directly below this thread; `ancestor`: anywhere below it; `before`
        (a thread_id) pages back. A page ends early where its answers fill it (`page_bytes`).
        """
        query = request.query_params()
        state, cursor = read_text_param(query, "state"), read_text_param(query, "before")
        if state is not None and state not in STATES:
            raise InvalidField(reason=f"state has an unknown value. Use one of: {', '.join(STATES)}.")
        ancestor_id = read_text_param(query, "parent") or read_text_param(query, "ancestor")
        if ancestor_id is not None:
            return await self._list_below(request, ancestor_id, direct="parent" in query)
        maximum = self._limits.thread_rows
        count = read_int_param(query, "limit", minimum=1, maximum=maximum) or maximum
        before = None if cursor is None else await self._own_thread(request, cursor)  # control: own-thread-cursor
        rows, is_end = await self._reader.list_of_workspace(request.workspace.id, state, before, count)
        return json_response(ThreadPage(await self._reader.to_items(rows), is_end))

    async def _own_thread(self, request: Request, thread_id: str) -> Thread:
        """Return a thread of the workspace. Raises NotFound, also for a thread of another workspace."""
        thread = await self._reader.get_thread(thread_id)
        if thread.workspace_id != request.workspace.id:
            raise NotFound(what="thread")
        return thread

    async def _list_below(self, request: Request, ancestor_id: str, *, direct: bool) -> Response:
        """List the threads below one of the workspace's that the caller may read: at most the size of a tree."""
        parent = await self._own_thread(request, ancestor_id)
        tree, readable_id = (
            await self._reader.load_tree(parent.root_id),
            await self._access.readable_workspace(request, parent),
        )
        rows = [
            each
            for each in tree
            if (each.parent_id == parent.thread_id if direct else each.path.startswith(f"{parent.path}/"))
            and each.workspace_id == (readable_id or each.workspace_id)
        ]
        return json_response(ThreadPage(await self._reader.to_items(rows), reached_end=True))

    async def get_thread(self, request: Request) -> Response:
        """Return a thread with its base instructions and layers."""
        return json_response(await self._reader.to_view(await self._access.find_readable(request)))

    async def list_items(self, request: Request) -> Response:
        """List log entries after the ordinal `after`, oldest first. A page ends early at `page_bytes`."""
        query, thread = request.query_params(), await self._access.find_readable(request)
        maximum = self._limits.thread_rows
        count = read_int_param(query, "limit", minimum=1, maximum=maximum) or maximum
        after = read_int_param(query, "after", minimum=0) or 0
        return json_response(await self._reader.entry_page(thread, after, count))

    async def get_model_context(self, request: Request) -> Response:
        """Return what the model will see: every item with its origin, version and tokens."""
        return json_response(await self._reader.build_model_context(await self._access.find_readable(request)))

    async def get_tree(self, request: Request) -> Response:
        """Return the threads of the tree that the caller may read, and how much of its limits the whole tree uses."""
        thread = await self._access.find_readable(request)
        return json_response(
            await self._reader.to_tree_view(thread, await self._access.readable_workspace(request, thread))
        )

    async def get_collab(self, request: Request) -> Response:
        """List the latest calls and messages between the agents of the tree, with receipts.

        Includes those that the caller may read, and messages to and from them. Calls are limited to one page
        (`page_bytes`).
        """
        thread = await self._access.find_readable(request)
        return json_response(
            await self._reader.collab_page(thread.root_id, await self._access.readable_workspace(request, thread))
        )

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _check_text(self, text: str, name: str) -> str:
        if len(text.encode()) > self._limits.prompt_bytes:
            raise InvalidField(
                reason=f"{name} is larger than the limit of {self._limits.prompt_bytes} bytes. Shorten it."
            )
        return text

    def _clean_line(self, text: str, name: str) -> str:
        return validate_line(text, self._limits.name_length, name)


def checked_inputs(inputs: str | list[TextInput], limits: Limits) -> list[TextInput]:
    """Return the input of a turn as a list of texts. Raises InvalidField."""
    texts = [TextInput(inputs)] if isinstance(inputs, str) else inputs
    for each in texts:
        validate_line(each.peer or "", limits.name_length, "peer")
    size = sum(len(each.text.encode()) for each in texts)
    if not any(each.text.strip() for each in texts):
        raise InvalidField(reason="input cannot be empty. Add a text or an item.")
    if size > limits.thread_input_bytes or len(texts) > limits.parts:
        maximum = f"{limits.thread_input_bytes} bytes or {limits.parts} items"
        raise InvalidField(reason=f"input is larger than the limit of {maximum}. Send a link to large content.")
    return texts


def thread_idempotency_key(request: Request, key_from_body: str | None, limits: Limits) -> str | None:
    """Return the idempotency key of the body or of the header Idempotency-Key. Raises InvalidField."""
    key: Any = key_from_body or request.header(b"idempotency-key")
    if key is not None and not is_valid_client_id(key, limits.id_length):
        raise InvalidField(reason=f"key is not valid. Use at most {limits.id_length} characters of {ID_ALPHABET}.")
    return None if key is None else str(key)
