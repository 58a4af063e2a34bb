"""Reads threads: rows, logs, and the context that a model sees."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import NotFound
from molecule_core.common.limits import Limits
from molecule_core.store.database import Row, Store
from molecule_core.store.queries import Params
from molecule_core.store.wakeups import Notifier, Poll
from molecule_core.threads.model import (
    CALL_MAIL_KEY,
    FINAL_MAIL_KEY,
    TASK_MAIL_KEY,
    LogEntryRow,
    Mail,
    Thread,
    TracedTurn,
    work_wake_key,
)
from molecule_core.threads.model_context import build_context, latest_layers, to_context_entries, total_tokens
from molecule_core.threads.rules import active_flags
from molecule_core.threads.serializers import entry_item, mail_item, thread_item
from molecule_core.wire.schemas.thread_log import (
    AgentStatus,
    BaseInstructionsEntry,
    ToolCallEntry,
    UsageEntry,
    decode_entry,
)
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
    """Reader of committed threads."""

    def __init__(self, store: Store, wakeups: Notifier, *, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._wakeups = wakeups
        self._clock = clock
        self._limits = limits

    async def get_thread(self, thread_id: str) -> Thread:
        """Return a thread. Raises NotFound."""
        found = await self.find_thread(thread_id)
        if found is None:
            raise NotFound(what="thread")
        return found

    async def find_thread(self, thread_id: str) -> Thread | None:
        """Return a thread, or None."""
        rows = await self._store.rows("thread", {"thread_id": thread_id})
        return Thread.from_row(rows[0]) if rows else None

    async def find_threads(self, thread_ids: Sequence[str]) -> list[Thread]:
        """Return those of the threads that exist."""
        queries: list[Params] = [{"thread_id": each} for each in thread_ids]
        return [Thread.from_row(rows[0]) for rows in await self._store.rows_of_each("thread", queries) if rows]

    async def load_tree(self, root_id: str) -> list[Thread]:
        """Return all threads of a tree, oldest first."""
        return [Thread.from_row(row) for row in await self._store.rows("threads_of_tree", {"root_id": root_id})]

    async def list_of_workspace(
        self, workspace_id: str, state: str | None, before: Thread | None, count: int
    ) -> tuple[list[Thread], bool]:
        """Return threads of a workspace, newest first, before one of them, and whether the page is the last one.

        A page holds up to `count` threads, fewer if their bytes fill it, and at least one."""
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

    async def list_keyed_turns(self, workspace_id: str, since: int, count: int) -> tuple[list[TracedTurn], bool]:
        """Return the first `count` turns that threads of a workspace accepted under a key since a time.

        And whether that is all of them, with everything that they used: of each thread `count` log entries are read."""
        wanted = {"workspace_id": workspace_id, "since": since, "count": count + 1}
        rows = await self._store.rows("keyed_turns", wanted)
        turns = [TracedTurn.from_row(row) for row in rows[:count]]
        has_all_work = await self._add_work(turns, count)
        return turns, has_all_work and len(rows) <= count

    async def list_turns_caused_by(self, causes: Sequence[TracedTurn], count: int) -> tuple[list[TracedTurn], bool]:
        """Return the first `count` turns that `causes` caused by mail between agents of their trees, oldest first.

        Those are turns of sub-agents that they spawned or asked, of sub-agents of these, and turns in which an agent
        reads the end of a sub-agent. A turn that was accepted under a key, or for input of a user, has its own cause.
        And whether that is all of them, with all that they used; of a tree `count` turns and mails are read."""
        since = dict[str, int]()
        for each in causes:
            since[each.root_id] = min(since.get(each.root_id, each.accepted_at), each.accepted_at)
        trees: list[Params] = [{"root_id": root, "since": at, "count": count + 1} for root, at in since.items()]
        turn_rows = await self._store.rows_of_each("mailed_turns", trees)
        mailed = [row for rows in turn_rows for row in rows[:count]]
        if not mailed:
            return [], True
        mail_rows = await self._store.rows_of_each("mail_of_tree", trees)
        mail = [row for rows in mail_rows for row in rows[:count]]
        parents = _parents_of_turns({each.turn_id for each in causes}, await self._senders_of_mail(mail), mail)
        found = [TracedTurn.from_row(row, parents[row[4]]) for row in mailed if row[4] in parents]
        found.sort(key=lambda each: (each.accepted_at, each.turn_id))
        has_all_rows = all(len(rows) <= count for rows in (*turn_rows, *mail_rows)) and len(found) <= count
        has_all_work = await self._add_work(found[:count], count)
        return found[:count], has_all_rows and has_all_work

    async def _senders_of_mail(self, mail: Sequence[Row]) -> list[str | None]:
        """Return for each mail the turn that sent it; None if it was sent outside of turns.

        The key of a mail names the turn whose end it is, or the call of the author's turn."""
        calls: list[Params] = [
            {"thread_id": author_id, "key": f"begin:{_call_of_mail(author_id, key)}"} for author_id, key, _ in mail
        ]
        entries = await self._store.rows_of_each("turn_of_entry", calls)
        return [
            key.removeprefix(FINAL_MAIL_KEY) if key.startswith(FINAL_MAIL_KEY) else (rows[0][0] if rows else None)
            for (_, key, _), rows in zip(mail, entries, strict=True)
        ]

    async def _add_work(self, turns: Sequence[TracedTurn], count: int) -> bool:
        """Add to turns what they used; return whether everything was read: `count` log entries of each thread are."""
        by_id = {each.turn_id: each for each in turns}
        queries = _work_queries(turns, self._clock.now(), count)
        found = await self._store.rows_of_each("work_entries", queries)
        for entry_rows in found:
            _add_work(by_id, entry_rows[:count])
        return all(len(entry_rows) <= count for entry_rows in found)

    async def count_by_state(self) -> dict[str, int]:
        """Return how many unclosed threads of all organisations are in each state."""
        idle, queued, running, waiting = (await self._store.rows("thread_states", {}))[0]
        return {"idle": idle, "queued": queued, "running": running, "waiting": waiting}

    # -- rendering -----------------------------------------------------------------------------------------------------

    async def to_item(self, thread: Thread) -> ThreadItem:
        """Render a thread for clients."""
        return (await self.to_items([thread]))[0]

    async def to_items(self, threads: Sequence[Thread]) -> list[ThreadItem]:
        """Render threads for clients."""
        roots = list(dict.fromkeys(each.root_id for each in threads))
        queries: list[Params] = [{"root_id": each} for each in roots]
        found = await self._store.rows_of_each("threads_of_tree_without_final", queries)
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
        """Render a thread with its instructions."""
        item = await self.to_item(thread)
        entry_rows = await self._load_entries(thread)
        layers = [
            InstructionLayerItem(each.type, each.version or 0, each.origin, each.tokens, each.text)
            for each in latest_layers(to_context_entries(entry_rows, thread.thread_id))
        ]
        members = {name: getattr(item, name) for name in ThreadItem.__struct_fields__}
        return ThreadView(**members, base_instructions=await self._base_text(thread), layers=layers)

    async def to_tree_view(self, thread: Thread, workspace_id: str | None) -> ThreadTreeView:
        """Render the tree of a thread and its usage; `workspace_id`: only threads of this workspace, usage of all."""
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
        """Return the latest calls and mail between the agents of a tree.

        `workspace_id`: only calls of its threads, and mail to and from them. Up to a page of calls, and at least one.
        """
        query = {"root_id": root_id, "workspace_id": workspace_id, "count": self._limits.thread_rows}
        full = {"page_bytes": self._limits.page_bytes}
        calls = [LogEntryRow(*row) for row in await self._store.rows("thread_calls_of_tree", {**query, **full})]
        mail = [Mail.from_row(row) for row in await self._store.rows("thread_mail_of_tree", {**query, "text_most": 0})]
        return CollabPage([entry_item(each) for each in reversed(calls)], [mail_item(each) for each in reversed(mail)])

    # -- logs ----------------------------------------------------------------------------------------------------------

    async def entry_page(self, thread: Thread, after: int, count: int) -> EntryPage:
        """Return log entries after one of them, and whether the page is the last one.

        A page holds up to `count` entries, fewer if their bytes fill it, and at least one."""
        query = {"thread_id": thread.thread_id, "after": after, **self._page_limits(count)}
        rows, is_end = _trim_page(await self._store.rows("thread_entries_page", query), count)
        entry_rows = [LogEntryRow(*row) for row in rows]
        texts = await self._base_texts([each for each in entry_rows if each.type == BASE_ENTRY_TYPE])
        return EntryPage([entry_item(each, texts.get(each.ordinal)) for each in entry_rows], is_end)

    async def _base_texts(self, entry_rows: Sequence[LogEntryRow]) -> dict[int, str]:
        """Return the texts of base instructions by the ordinals of their entries."""
        queries: list[Params] = [{"thread_id": each.thread_id, "version": _base_version(each)} for each in entry_rows]
        found = await self._store.rows_of_each("thread_base", queries)
        return {each.ordinal: str(rows[0][0]) for each, rows in zip(entry_rows, found, strict=True) if rows}

    def _page_limits(self, count: int) -> dict[str, object]:
        """Return the query parameters of a page. One row more than requested shows whether there are more."""
        return {"count": count + 1, "page_bytes": self._limits.page_bytes}

    async def build_model_context(self, thread: Thread, *, stop_reason: str | None = None) -> ModelContext:
        """Build the context that a model sees now."""
        entry_rows = await self._load_entries(thread)
        items = build_context(
            to_context_entries(entry_rows, thread.thread_id), thread.base_ref, await self._base_text(thread)
        )
        return ModelContext(items, total_tokens(items), thread.last_ordinal, stop_reason)

    async def _load_entries(self, thread: Thread) -> list[LogEntryRow]:
        """Return the whole log, with the parts of the logs that it was forked from."""
        chain, upto, since = list[list[LogEntryRow]](), thread.last_ordinal, 0
        row: Thread | None = thread
        while row is not None:
            chain.append(await self._load_own_entries(row.thread_id, since, upto, _NO_LIMIT))
            is_cut = since > 0  # a cut fork ends the chain: nothing before its first turn is visible
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
        """Return threads with work for an engine once there are any; none after `seconds`.

        These are threads that it may claim, or has claimed and has a turn to begin in. `include_own`: also those in
        which it has begun a turn, for an engine that restarted."""

        async def poll() -> Poll[list[WorkItem]]:
            now = self._clock.now()
            engine_query = {"workspace_id": workspace_id, "owner": owner, "now": now}
            query = {**engine_query, "own_too": int(include_own), "count": self._limits.thread_rows}
            found = [_to_work_item(row) for row in await self._store.rows("thread_work", query)]
            if found:
                return Poll(found)
            ((until,),) = await self._store.rows("thread_work_held", engine_query)
            return Poll(None, next_poll_in=None if until is None else (until - now) / SECOND)

        return WorkList(await self._wakeups.wait_until(work_wake_key(workspace_id), poll, seconds) or [])

    async def without_engine(self, threads: Sequence[Thread]) -> list[Thread]:
        """Return the threads without an engine: not claimed, and no recent poll for work of their workspace."""
        workspace_ids, now = list(dict.fromkeys(each.workspace_id for each in threads)), self._clock.now()
        queries: list[Params] = [{"workspace_id": each} for each in workspace_ids]
        since = now - self._limits.thread_engine_seconds * SECOND
        polls = await self._store.rows_of_each("thread_engine", queries)
        polled = {
            workspace_id for workspace_id, rows in zip(workspace_ids, polls, strict=True) if rows and rows[0][0] > since
        }
        held = {each.thread_id for each in threads if each.owner is not None and each.owner_until > now}
        return [each for each in threads if each.workspace_id not in polled and each.thread_id not in held]


def _work_queries(turns: Sequence[TracedTurn], now: int, count: int) -> list[Params]:
    """Return for each thread of the turns the query of what they used."""
    spans = dict[str, tuple[int, int]]()
    for turn in turns:
        since, until = spans.get(turn.thread_id, (turn.accepted_at, 0))
        spans[turn.thread_id] = (since, max(until, now if turn.ended_at is None else turn.ended_at))
    return [
        {"thread_id": thread_id, "since": since, "until": until, "count": count + 1}
        for thread_id, (since, until) in spans.items()
    ]


def _call_of_mail(author_id: str, key: str) -> str:
    """Return the call that sent a mail, by the mail's key."""
    for prefix in (TASK_MAIL_KEY, f"{CALL_MAIL_KEY}{author_id}:"):
        if key.startswith(prefix):
            return key.removeprefix(prefix)
    return ""


def _parents_of_turns(causes: Iterable[str], senders: Sequence[str | None], mail: Sequence[Row]) -> dict[str, str]:
    """Return for each turn that `causes` began, directly or through others, the turn whose mail it read first."""
    readers = dict[str, list[str]]()
    for sender, (_, _, reader) in zip(senders, mail, strict=True):
        if sender is not None:
            readers.setdefault(sender, []).append(reader)
    parents, waiting = dict[str, str](), deque(causes)
    known = set(waiting)
    while waiting:
        sender = waiting.popleft()
        for reader in readers.get(sender, ()):
            if reader not in known:
                known.add(reader)
                parents[reader] = sender
                waiting.append(reader)
    return parents


def _add_work(turns: Mapping[str, TracedTurn], entry_rows: Sequence[Row]) -> None:
    """Add tokens and calls of one thread's log entries to their turns. Equal record keys count once."""
    counted = set[str]()
    for turn_id, body in entry_rows:
        turn = turns.get(turn_id)
        if turn is None:
            continue
        entry = decode_entry(body)
        if isinstance(entry, ToolCallEntry):
            turn.tools[entry.tool] = turn.tools.get(entry.tool, 0) + 1
        elif isinstance(entry, UsageEntry) and entry.record_key not in counted:
            counted.add(entry.record_key)
            for name, value in (("input_tokens", entry.input), ("output_tokens", entry.output)):
                turn.tokens[name] = turn.tokens.get(name, 0) + value


def _trim_page(rows: Sequence[Row], count: int) -> tuple[list[Row], bool]:
    """Return the rows without their count column and without the extra row, and whether no more follow."""
    shown = rows[:count]
    return [row[:-1] for row in shown], not rows or rows[0][-1] <= len(shown)


def _base_version(entry_row: LogEntryRow) -> int:
    entry = decode_entry(entry_row.body)
    return entry.version if isinstance(entry, BaseInstructionsEntry) else 0


def _to_work_item(row: Row) -> WorkItem:
    thread_id, path, running, queue = row
    turn_id = running or msgspec.json.decode(queue, type=list[str])[0]
    return WorkItem(thread_id, path, turn_id, "accepted" if running is None else "running")
