"""Reads of threads: rows, logs, and what a model will see."""

from collections.abc import Sequence

import msgspec

from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import NotFound
from molecule_core.common.limits import Limits
from molecule_core.store.database import Row, Store
from molecule_core.store.queries import Params
from molecule_core.store.wakeups import Notifier, Poll
from molecule_core.threads.model import LogEntryRow, Mail, Thread, work_wake_key
from molecule_core.threads.model_context import build_context, latest_layers, to_context_entries, total_tokens
from molecule_core.threads.rules import active_flags
from molecule_core.threads.serializers import entry_item, mail_item, thread_item
from molecule_core.wire.schemas.thread_log import AgentStatus, BaseInstructionsEntry, decode_entry
from molecule_core.wire.schemas.threads import (
    CollabPage,
    EntryPage,
    InstructionLayerItem,
    ModelContext,
    ThreadItem,
    ThreadTreeView,
    ThreadView,
    WorkItem,
    WorkList,
)

OPEN_STATE, CLOSED_STATE = "open", "closed"
STATES: tuple[AgentStatus | str, ...] = (
    OPEN_STATE,
    CLOSED_STATE,
    "pending_init",
    "running",
    "interrupted",
    "completed",
    "errored",
    "shutdown",
)
BASE_ENTRY_TYPE = "base"
_MAX_TIME = _NO_LIMIT = (1 << 62) - 1


class ThreadReader:
    """What others may know of threads, as it is committed."""

    def __init__(self, store: Store, wakeups: Notifier, *, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._wakeups = wakeups
        self._clock = clock
        self._limits = limits

    async def get_thread(self, thread_id: str) -> Thread:
        """A thread. Raises NotFound."""
        found = await self.find_thread(thread_id)
        if found is None:
            raise NotFound(what="thread")
        return found

    async def find_thread(self, thread_id: str) -> Thread | None:
        """A thread, if there is one."""
        rows = await self._store.rows("thread", {"thread_id": thread_id})
        return Thread.from_row(rows[0]) if rows else None

    async def find_threads(self, thread_ids: Sequence[str]) -> list[Thread]:
        """Those of these threads that are there."""
        queries: list[Params] = [{"thread_id": each} for each in thread_ids]
        return [Thread.from_row(rows[0]) for rows in await self._store.rows_of_each("thread", queries) if rows]

    async def load_tree(self, root_id: str) -> list[Thread]:
        """All threads of a tree, oldest first."""
        return [Thread.from_row(row) for row in await self._store.rows("threads_of_tree", {"root_id": root_id})]

    async def list_of_workspace(
        self, workspace_id: str, state: str | None, before: Thread | None, count: int
    ) -> tuple[list[Thread], bool]:
        """The threads of a workspace, newest first, before one of them; whether there is none behind them. Fewer than
        so many where what they show fills a page, but at least one."""
        position = (_MAX_TIME, "") if before is None else (before.created_at, before.thread_id)
        query = {
            "workspace_id": workspace_id,
            "state": {CLOSED_STATE: "shutdown", OPEN_STATE: None}.get(state or "", state),
            "is_open": 1 if state == OPEN_STATE else None,
            "before_at": position[0],
            "before_id": position[1],
            **self._page_limits(count),
        }
        found, is_end = _trim_page(await self._store.rows("threads_of_workspace", query), count)
        return [Thread.from_row(row) for row in found], is_end

    async def count_by_state(self) -> dict[str, int]:
        """How many threads of all organisations are not closed, by what they do."""
        idle, queued, running, waiting = (await self._store.rows("thread_states", {}))[0]
        return {"idle": idle, "queued": queued, "running": running, "waiting": waiting}

    # -- shown ---------------------------------------------------------------------------------------------------------

    async def to_item(self, thread: Thread) -> ThreadItem:
        """A thread as clients read it."""
        return (await self.to_items([thread]))[0]

    async def to_items(self, threads: Sequence[Thread]) -> list[ThreadItem]:
        """Threads as clients read them."""
        roots = list(dict.fromkeys(each.root_id for each in threads))
        queries: list[Params] = [{"root_id": each} for each in roots]
        found = await self._store.rows_of_each("threads_of_tree_unsaid", queries)
        trees = {root: [Thread.from_row(row) for row in rows] for root, rows in zip(roots, found, strict=True)}
        return [
            thread_item(
                each,
                active_flags(each, trees[each.root_id]),
                tree_tokens=sum(other.tokens for other in trees[each.root_id]),
            )
            for each in threads
        ]

    async def to_view(self, thread: Thread) -> ThreadView:
        """A thread with its instructions."""
        item = await self.to_item(thread)
        entry_rows = await self._load_entries(thread)
        layers = [
            InstructionLayerItem(each.type, each.version or 0, each.origin, each.tokens, each.text)
            for each in latest_layers(to_context_entries(entry_rows, thread.thread_id))
        ]
        members = {name: getattr(item, name) for name in ThreadItem.__struct_fields__}
        return ThreadView(**members, base_instructions=await self._base_text(thread), layers=layers)

    async def to_tree_view(self, thread: Thread, workspace_id: str | None) -> ThreadTreeView:
        """The threads of its tree, only those of a workspace if one is named, and what all of them use."""
        tree = await self.load_tree(thread.root_id)
        below = [each for each in tree if each.thread_id != thread.root_id]
        tokens = sum(each.tokens for each in tree)
        shown = [
            thread_item(each, active_flags(each, tree), tree_tokens=tokens)
            for each in tree
            if each.workspace_id == (workspace_id or each.workspace_id)
        ]
        return ThreadTreeView(shown, sum(each.open for each in below), len(below), tokens)

    async def collab_page(self, root_id: str, workspace_id: str | None) -> CollabPage:
        """What the agents of a tree asked and wrote each other last; if a workspace is named, what its own asked, and
        letters to and from those. No more calls than fill a page, but at least one."""
        query = {"root_id": root_id, "workspace_id": workspace_id, "count": self._limits.thread_rows}
        full = {"page_bytes": self._limits.page_bytes}
        calls = [LogEntryRow(*row) for row in await self._store.rows("thread_calls_of_tree", {**query, **full})]
        mail = [Mail.from_row(row) for row in await self._store.rows("thread_mail_of_tree", {**query, "text_most": 0})]
        return CollabPage([entry_item(each) for each in reversed(calls)], [mail_item(each) for each in reversed(mail)])

    # -- logs ----------------------------------------------------------------------------------------------------------

    async def entry_page(self, thread: Thread, after: int, count: int) -> EntryPage:
        """Lines of a log behind one of them: so many, or fewer where they fill a page, but at least one."""
        query = {"thread_id": thread.thread_id, "after": after, **self._page_limits(count)}
        rows, is_end = _trim_page(await self._store.rows("thread_entries_page", query), count)
        entry_rows = [LogEntryRow(*row) for row in rows]
        texts = await self._base_texts([each for each in entry_rows if each.type == BASE_ENTRY_TYPE])
        return EntryPage([entry_item(each, texts.get(each.ordinal)) for each in entry_rows], is_end)

    async def _base_texts(self, entry_rows: Sequence[LogEntryRow]) -> dict[int, str]:
        """The base instructions that lines are about, by their ordinals."""
        queries: list[Params] = [{"thread_id": each.thread_id, "version": _base_version(each)} for each in entry_rows]
        found = await self._store.rows_of_each("thread_base", queries)
        return {each.ordinal: str(rows[0][0]) for each, rows in zip(entry_rows, found, strict=True) if rows}

    def _page_limits(self, count: int) -> dict[str, object]:
        """One more than is wanted tells whether there are more."""
        return {"count": count + 1, "page_bytes": self._limits.page_bytes}

    async def build_model_context(self, thread: Thread, *, stop_reason: str | None = None) -> ModelContext:
        """What the model will see of a thread as it stands."""
        entry_rows = await self._load_entries(thread)
        items = build_context(
            to_context_entries(entry_rows, thread.thread_id), thread.base_ref, await self._base_text(thread)
        )
        return ModelContext(items, total_tokens(items), thread.last_ordinal, stop_reason)

    async def _load_entries(self, thread: Thread) -> list[LogEntryRow]:
        """The whole log, read through what it was forked from."""
        chain, upto, since = list[list[LogEntryRow]](), thread.last_ordinal, 0
        row: Thread | None = thread
        while row is not None:
            chain.append(await self._load_own_entries(row.thread_id, since, upto, _NO_LIMIT))
            is_cut = since > 0  # what lies before the turns that are to be seen is not seen either
            upto, since = row.fork_at, row.fork_since
            row = None if is_cut or row.fork_id is None else await self.find_thread(row.fork_id)
        return [entry_row for entry_rows in reversed(chain) for entry_row in entry_rows]

    async def _load_own_entries(self, thread_id: str, after: int, upto: int, count: int) -> list[LogEntryRow]:
        query = {"thread_id": thread_id, "after": after, "upto": upto, "count": count}
        return [LogEntryRow(*row) for row in await self._store.rows("thread_entries_after", query)]

    async def _base_text(self, thread: Thread) -> str:
        query = {"thread_id": thread.base_thread, "version": thread.base_version}
        rows = await self._store.rows("thread_base", query)
        return str(rows[0][0])

    # -- work ----------------------------------------------------------------------------------------------------------

    async def wait_for_work(
        self, workspace_id: str, owner: str | None, seconds: float, *, include_own: bool = False
    ) -> WorkList:
        """Threads that an engine may claim, or has claimed and that have a turn to begin, as soon as there is one;
        none, if that takes too long. `own_too`: also those in which it has begun a turn, as another life of it."""

        async def look() -> Poll[list[WorkItem]]:
            now = self._clock.now()
            engine_query = {"workspace_id": workspace_id, "owner": owner, "now": now}
            query = {**engine_query, "own_too": int(include_own), "count": self._limits.thread_rows}
            found = [_to_work_item(row) for row in await self._store.rows("thread_work", query)]
            if found:
                return Poll(found)
            ((until,),) = await self._store.rows("thread_work_held", engine_query)
            return Poll(None, next_poll_in=None if until is None else (until - now) / SECOND)

        return WorkList(await self._wakeups.wait_until(work_wake_key(workspace_id), look, seconds) or [])

    async def without_engine(self, threads: Sequence[Thread]) -> list[Thread]:
        """Those of these threads that nobody runs: no engine holds them, and none has asked for work of their workspace
        lately."""
        workspace_ids, now = list(dict.fromkeys(each.workspace_id for each in threads)), self._clock.now()
        queries: list[Params] = [{"workspace_id": each} for each in workspace_ids]
        since = now - self._limits.thread_engine_seconds * SECOND
        polls = await self._store.rows_of_each("thread_engine", queries)
        polled = {
            workspace_id for workspace_id, rows in zip(workspace_ids, polls, strict=True) if rows and rows[0][0] > since
        }
        held = {each.thread_id for each in threads if each.owner is not None and each.owner_until > now}
        return [each for each in threads if each.workspace_id not in polled and each.thread_id not in held]


def _trim_page(rows: Sequence[Row], count: int) -> tuple[list[Row], bool]:
    """The rows of a page without how many there were, of which one more was asked for; whether none is behind them."""
    shown = rows[:count]
    return [row[:-1] for row in shown], not rows or rows[0][-1] <= len(shown)


def _base_version(entry_row: LogEntryRow) -> int:
    entry = decode_entry(entry_row.body)
    return entry.version if isinstance(entry, BaseInstructionsEntry) else 0


def _to_work_item(row: Row) -> WorkItem:
    thread_id, path, running, queue = row
    turn_id = running or msgspec.json.decode(queue, type=list[str])[0]
    return WorkItem(thread_id, path, turn_id, "accepted" if running is None else "running")
