"""Threads over REST, for people and agents: to start, read, steer, stop, fork, resume and close them."""

from typing import Any

from molecule_core.access.model import Kind, Role
from molecule_core.edges.query import BEFORE, LIMIT, asks, choice, number, plain_text, text, whole_number
from molecule_core.edges.rates import SENDING
from molecule_core.edges.routes import EVERYBODY, Answer, Call, Reach, Route, Who, json_answer
from molecule_core.ground.errors import InvalidField, NotFound
from molecule_core.ground.limits import Limits
from molecule_core.ground.refusals import BaseMissing
from molecule_core.ground.text import clean_line, is_client_id
from molecule_core.org.reader import OrgReader
from molecule_core.prompts.reader import PromptReader
from molecule_core.threads.bases import BaseInstructions, base_of
from molecule_core.threads.model import Setup, Thread
from molecule_core.threads.reader import STATES, ThreadReader
from molecule_core.threads.writer import ThreadWriter
from molecule_core.wire.threadlog import Author, TextInput
from molecule_core.wire.threads import (
    CloseWish,
    CollabPage,
    EntryPage,
    ForkWish,
    Interrupt,
    Overrides,
    Sight,
    Start,
    ThreadItem,
    ThreadPage,
    ThreadView,
    TreeView,
    TurnStart,
    TurnTaken,
)


class Found:
    """Finds the thread of a path for those who may have to do with it."""

    def __init__(self, reader: ThreadReader, org: OrgReader) -> None:
        self._reader = reader
        self._org = org

    async def seen(self, call: Call) -> Thread:
        """For who may read it: persons of its organisation, its own workspace, and the one that its tree begins in.
        Raises NotFound."""
        thread = await self._of_org(call)
        if thread.workspace_id != (await self.only(call, thread) or thread.workspace_id):
            raise NotFound(what="thread")
        return thread

    async def only(self, call: Call, thread: Thread) -> str | None:
        """The workspace of whose threads alone the caller may read in the tree of a thread: its own, where the tree
        begins elsewhere. None: it may read all of them."""
        if call.by.kind is not Kind.WORKSPACE:
            return None
        root = thread if thread.thread_id == thread.root_id else await self._reader.find(thread.root_id)
        return None if root is not None and root.workspace_id == call.by.id else call.by.id

    async def driven(self, call: Call) -> Thread:
        """For who may drive it: persons (whose role the guards have looked at), and its own workspace. Raises
        NotFound."""
        thread = await self._of_org(call)
        if call.by.kind is Kind.WORKSPACE and thread.workspace_id != call.by.id:
            raise NotFound(what="thread")
        return thread

    async def _of_org(self, call: Call) -> Thread:
        thread = await self._reader.one(call.named("thread_id", "thread"))
        if call.by.kind is not Kind.ADMIN and thread.org_id != call.by.org_id:  # control: thread-org
            raise NotFound(what="thread")
        return thread

    def author(self, call: Call) -> Author:
        """Who acts, as the credential proves it."""
        if call.by.kind is not Kind.WORKSPACE:
            return Author("person", call.by.id, call.by.name)
        seat = self._org.workspace(call.by.id)
        return Author("workspace", call.by.id, "" if seat is None else seat.name)


class ThreadEdge:
    """The routes of threads for clients."""

    def __init__(
        self, writer: ThreadWriter, reader: ThreadReader, prompts: PromptReader, org: OrgReader, *, limits: Limits
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._prompts = prompts
        self._org = org
        self._found = Found(reader, org)
        self._limits = limits

    def routes(self) -> list[Route]:
        """The rows for the table."""
        every, one = "/workspaces/{id}/threads", "/threads/{thread_id}"
        own, look = Who(EVERYBODY, Reach.OWN, Role.OPERATOR), Who(EVERYBODY, Reach.OWN)
        drive, see = Who(EVERYBODY, role=Role.OPERATOR), Who(EVERYBODY)
        item, turn = ThreadItem, TurnTaken
        found = asks(
            LIMIT,
            BEFORE,
            choice("state", "How they stand.", STATES),
            text("parent", "Those right below this thread."),
            text("ancestor", "All below this thread."),
        )
        paged = asks(LIMIT, number("after", "The ordinal behind which to go on."))
        return [
            Route("POST", every, self.start, own, "Start a thread", Start, item, 201, bare=True, counts=SENDING),
            Route("GET", every, self.every, look, "Threads of a workspace", None, ThreadPage, query=found),
            Route("GET", one, self.show, see, "A thread with its instructions", None, ThreadView),
            Route("GET", f"{one}/items", self.items, see, "The log of a thread", None, EntryPage, query=paged),
            Route("GET", f"{one}/sight", self.sight, see, "What the model will see", None, Sight),
            Route("GET", f"{one}/tree", self.tree, see, "The tree of a thread", None, TreeView),
            Route("GET", f"{one}/collab", self.collab, see, "Calls and letters of its tree", None, CollabPage),
            Route("POST", f"{one}/turns", self.turn, drive, "Give input", TurnStart, turn, 202, counts=SENDING),
            Route("POST", f"{one}/compact", self.compact, drive, "Have it summed up", None, turn, 202),
            Route("POST", f"{one}/interrupt", self.interrupt, drive, "Stop its turn", Interrupt, item, bare=True),
            Route("POST", f"{one}/close", self.close, drive, "Close it", CloseWish, item, bare=True),
            Route("POST", f"{one}/resume", self.resume, drive, "Take it up again", Overrides, ThreadView, bare=True),
            Route(
                "POST",
                f"{one}/fork",
                self.fork,
                drive,
                "Go on from it in another",
                ForkWish,
                ThreadView,
                201,
                bare=True,
            ),
        ]

    # -- starting ------------------------------------------------------------------------------------------------------

    async def start(self, call: Call) -> Answer:
        """A new thread, with the base instructions that are given, else with the prompt that the agent of the workspace
        has told last. They are kept for good."""
        wish = call.read(Start)
        thread = await self._writer.start(
            call.target,
            await self._base(call.target.id, wish.base_instructions),
            self._setup(wish),
            by=self._found.author(call),
            nickname=self._line(wish.nickname, "nickname"),
            role=self._line(wish.role or "", "role") or None,
            texts=[] if wish.input is None else texts_of(wish.input, self._limits),
            key=key_of(call, wish.key, self._limits),
        )
        return json_answer(await self._reader.item(thread), 201)

    async def _base(self, workspace_id: str, given: str | None) -> BaseInstructions:
        if given is not None:
            return base_of(self._text(given, "base_instructions"), "override", "given on start")
        kept = await self._prompts.newest(workspace_id)
        if not kept:
            raise BaseMissing
        return base_of(self._prompts.text_of(kept[0]), "prompt", f"prompt revision {kept[0].revision}")

    async def fork(self, call: Call) -> Answer:
        """Base instructions, model, effort, tools and permissions are the source's, unless they are given anew."""
        wish, source = call.read(ForkWish), await self._found.driven(call)
        seat = self._org.workspace(source.workspace_id)
        if seat is None or seat.removed:
            raise NotFound(what="workspace")
        thread = await self._writer.fork(
            source,
            seat,
            self._setup(wish),
            position=wish.position,
            nickname=self._line(wish.nickname, "nickname"),
            key=key_of(call, wish.key, self._limits),
        )
        return json_answer(await self._reader.view(thread), 201)

    async def resume(self, call: Call) -> Answer:
        """What is given anew is kept as a new version, and is in the answer."""
        setup, thread = self._setup(call.read(Overrides)), await self._found.driven(call)
        resumed = await self._writer.resume(thread, self._found.author(call), setup)
        return json_answer(await self._reader.view(resumed))

    def _setup(self, wish: Start | Overrides) -> Setup:
        limits = self._limits
        for name in ("base_instructions", "developer", "context"):
            text = getattr(wish, name)
            if text is not None:
                self._text(text, name)
        for each in wish.tools or ():
            clean_line(each, limits.short_text_length, "tools")
        return Setup(
            base=wish.base_instructions,
            developer=wish.developer,
            context=wish.context,
            model=self._line(wish.model or "", "model") or None,
            effort=self._line(wish.effort or "", "effort") or None,
            tools=wish.tools,
            permissions=wish.permissions,
        )

    # -- driving -------------------------------------------------------------------------------------------------------

    async def turn(self, call: Call) -> Answer:
        """Input joins the turn that runs, or gets one of its own: 202 as soon as it cannot be lost."""
        wish, thread = call.read(TurnStart), await self._found.driven(call)
        taken = await self._writer.turn(
            thread,
            texts_of(wish.input, self._limits),
            by=self._found.author(call),
            mode=wish.mode,
            expected=wish.expected_turn_id,
            key=key_of(call, wish.key, self._limits),
        )
        return json_answer(taken, 202)

    async def compact(self, call: Call) -> Answer:
        """Its engine sums up what was said in a turn of its own."""
        thread = await self._found.driven(call)
        return json_answer(await self._writer.compact(thread, self._found.author(call)), 202)

    async def interrupt(self, call: Call) -> Answer:
        """The turn that runs ends at once. `descendants`: detach (as they are) or interrupt."""
        wish, thread = call.read(Interrupt), await self._found.driven(call)
        return await self._shown(await self._writer.interrupt(thread, self._found.author(call), wish.descendants))

    async def close(self, call: Call) -> Answer:
        """It takes nothing more. `descendants`: detach (as they are), interrupt or close."""
        wish, thread = call.read(CloseWish), await self._found.driven(call)
        return await self._shown(await self._writer.close(thread, self._found.author(call), wish.descendants))

    async def _shown(self, thread: Thread) -> Answer:
        return json_answer(await self._reader.item(thread))

    # -- looking -------------------------------------------------------------------------------------------------------

    async def every(self, call: Call) -> Answer:
        """Newest first. `state`: a status, open or closed; `parent` and `ancestor`: those below this thread;
        `before` (a thread_id) pages back. A page ends early where what they answered fills it (`page_bytes`)."""
        query = call.query()
        state, place = plain_text(query, "state"), plain_text(query, "before")
        if state is not None and state not in STATES:
            raise InvalidField(reason=f"state must be one of {', '.join(STATES)}")
        above = plain_text(query, "parent") or plain_text(query, "ancestor")
        if above is not None:
            return await self._below(call, above, direct="parent" in query)
        most = self._limits.thread_rows
        count = whole_number(query, "limit", least=1, most=most) or most
        before = None if place is None else await self._own(call, place)  # control: own-thread-cursor
        rows, is_end = await self._reader.of_workspace(call.target.id, state, before, count)
        return json_answer(ThreadPage(await self._reader.items(rows), is_end))

    async def _own(self, call: Call, thread_id: str) -> Thread:
        """A thread of the workspace. Raises NotFound, also for one of others."""
        thread = await self._reader.one(thread_id)
        if thread.workspace_id != call.target.id:
            raise NotFound(what="thread")
        return thread

    async def _below(self, call: Call, above: str, *, direct: bool) -> Answer:
        """Those of the tree of one of the workspace's threads that the caller may read: at most as many as a tree may
        have."""
        parent = await self._own(call, above)
        tree, only = await self._reader.tree(parent.root_id), await self._found.only(call, parent)
        rows = [
            each
            for each in tree
            if (each.parent_id == parent.thread_id if direct else each.path.startswith(f"{parent.path}/"))
            and each.workspace_id == (only or each.workspace_id)
        ]
        return json_answer(ThreadPage(await self._reader.items(rows), reached_end=True))

    async def show(self, call: Call) -> Answer:
        """A thread with its base instructions and layers."""
        return json_answer(await self._reader.view(await self._found.seen(call)))

    async def items(self, call: Call) -> Answer:
        """The log, oldest first, behind the ordinal `after`. A page ends early where its lines fill it
        (`page_bytes`)."""
        query, thread = call.query(), await self._found.seen(call)
        most = self._limits.thread_rows
        count = whole_number(query, "limit", least=1, most=most) or most
        after = whole_number(query, "after", least=0) or 0
        return json_answer(await self._reader.entries(thread, after, count))

    async def sight(self, call: Call) -> Answer:
        """What the model will see: every item with its origin, version and tokens."""
        return json_answer(await self._reader.sight(await self._found.seen(call)))

    async def tree(self, call: Call) -> Answer:
        """Those threads of its tree that the caller may read, and what the whole tree uses of the limits."""
        thread = await self._found.seen(call)
        return json_answer(await self._reader.shown_tree(thread, await self._found.only(call, thread)))

    async def collab(self, call: Call) -> Answer:
        """What the agents of its tree asked and wrote each other last, with receipts: those that the caller may read,
        and letters to and from them. No more calls than fill a page (`page_bytes`)."""
        thread = await self._found.seen(call)
        return json_answer(await self._reader.collab(thread.root_id, await self._found.only(call, thread)))

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _text(self, text: str, name: str) -> str:
        if len(text.encode()) > self._limits.prompt_bytes:
            raise InvalidField(reason=f"{name} has more than {self._limits.prompt_bytes} bytes; say less")
        return text

    def _line(self, text: str, name: str) -> str:
        return clean_line(text, self._limits.name_length, name)


def texts_of(given: str | list[TextInput], limits: Limits) -> list[TextInput]:
    """Input of a turn. Raises InvalidField."""
    texts = [TextInput(given)] if isinstance(given, str) else given
    for each in texts:
        clean_line(each.peer or "", limits.name_length, "peer")
    size = sum(len(each.text.encode()) for each in texts)
    if not any(each.text.strip() for each in texts):
        raise InvalidField(reason="input is empty; say something")
    if size > limits.thread_input_bytes or len(texts) > limits.parts:
        most = f"{limits.thread_input_bytes} bytes or {limits.parts} items"
        raise InvalidField(reason=f"input has more than {most}; send a link to what is large")
    return texts


def key_of(call: Call, given: str | None, limits: Limits) -> str | None:
    """What tells repetitions, from the body or the header Idempotency-Key. Raises InvalidField."""
    key: Any = given or call.header(b"idempotency-key")
    if key is not None and not is_client_id(key, limits.id_length):
        raise InvalidField(reason=f"key must be at most {limits.id_length} characters of A-Z a-z 0-9 . _ : -")
    return None if key is None else str(key)
