"""Reads of threads: rows, logs, and what a model will see."""

from collections.abc import Sequence

import msgspec

from molecule_core.ground.clock import SECOND, Clock
from molecule_core.ground.errors import NotFound
from molecule_core.ground.limits import Limits
from molecule_core.store.database import Row, Store
from molecule_core.store.queries import Params
from molecule_core.store.wakeups import Look, Wakeups
from molecule_core.threads.items import item_of, line_item, mail_item
from molecule_core.threads.model import Line, Mail, Thread, work_key
from molecule_core.threads.rules import flags_of
from molecule_core.threads.sight import layers_in, seen_of, sight, tokens_in
from molecule_core.wire.threadlog import AgentStatus, BaseSet, entry_of
from molecule_core.wire.threads import (
    CollabPage,
    EntryPage,
    LayerItem,
    Sight,
    ThreadItem,
    ThreadView,
    TreeView,
    Work,
    WorkItem,
)

OPEN, CLOSED = "open", "closed"
STATES: tuple[AgentStatus | str, ...] = (
    OPEN,
    CLOSED,
    "pending_init",
    "running",
    "interrupted",
    "completed",
    "errored",
    "shutdown",
)
BASE = "base"
_NEWEST = _ALL = (1 << 62) - 1


class ThreadReader:
    """What others may know of threads, as it is committed."""

    def __init__(self, store: Store, wakeups: Wakeups, *, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._wakeups = wakeups
        self._clock = clock
        self._limits = limits

    async def one(self, thread_id: str) -> Thread:
        """A thread. Raises NotFound."""
        found = await self.find(thread_id)
        if found is None:
            raise NotFound(what="thread")
        return found

    async def find(self, thread_id: str) -> Thread | None:
        """A thread, if there is one."""
        rows = await self._store.rows("thread", {"thread_id": thread_id})
        return Thread.of(rows[0]) if rows else None

    async def all_of(self, thread_ids: Sequence[str]) -> list[Thread]:
        """Those of these threads that are there."""
        wishes: list[Params] = [{"thread_id": each} for each in thread_ids]
        return [Thread.of(rows[0]) for rows in await self._store.rows_of_each("thread", wishes) if rows]

    async def tree(self, root_id: str) -> list[Thread]:
        """All threads of a tree, oldest first."""
        return [Thread.of(row) for row in await self._store.rows("threads_of_tree", {"root_id": root_id})]

    async def of_workspace(
        self, workspace_id: str, state: str | None, before: Thread | None, count: int
    ) -> tuple[list[Thread], bool]:
        """The threads of a workspace, newest first, before one of them; whether there is none behind them. Fewer than
        so many where what they show fills a page, but at least one."""
        place = (_NEWEST, "") if before is None else (before.created_at, before.thread_id)
        wish = {
            "workspace_id": workspace_id,
            "state": {CLOSED: "shutdown", OPEN: None}.get(state or "", state),
            "is_open": 1 if state == OPEN else None,
            "before_at": place[0],
            "before_id": place[1],
            **self._page(count),
        }
        found, is_end = _cut(await self._store.rows("threads_of_workspace", wish), count)
        return [Thread.of(row) for row in found], is_end

    async def states_in_all(self) -> dict[str, int]:
        """How many threads of all organisations are not closed, by what they do."""
        idle, queued, running, waiting = (await self._store.rows("thread_states", {}))[0]
        return {"idle": idle, "queued": queued, "running": running, "waiting": waiting}

    # -- shown ---------------------------------------------------------------------------------------------------------

    async def item(self, thread: Thread) -> ThreadItem:
        """A thread as clients read it."""
        return (await self.items([thread]))[0]

    async def items(self, threads: Sequence[Thread]) -> list[ThreadItem]:
        """Threads as clients read them."""
        roots = list(dict.fromkeys(each.root_id for each in threads))
        wishes: list[Params] = [{"root_id": each} for each in roots]
        found = await self._store.rows_of_each("threads_of_tree_unsaid", wishes)
        trees = {root: [Thread.of(row) for row in rows] for root, rows in zip(roots, found, strict=True)}
        return [
            item_of(
                each,
                flags_of(each, trees[each.root_id]),
                tree_tokens=sum(other.tokens for other in trees[each.root_id]),
            )
            for each in threads
        ]

    async def view(self, thread: Thread) -> ThreadView:
        """A thread with its instructions."""
        item = await self.item(thread)
        lines = await self._lines(thread)
        layers = [
            LayerItem(each.type, each.version or 0, each.origin, each.tokens, each.text)
            for each in layers_in(seen_of(lines, thread.thread_id))
        ]
        members = {name: getattr(item, name) for name in ThreadItem.__struct_fields__}
        return ThreadView(**members, base_instructions=await self._base_text(thread), layers=layers)

    async def shown_tree(self, thread: Thread, workspace_id: str | None) -> TreeView:
        """The threads of its tree, only those of a workspace if one is named, and what all of them use."""
        tree = await self.tree(thread.root_id)
        below = [each for each in tree if each.thread_id != thread.root_id]
        tokens = sum(each.tokens for each in tree)
        shown = [
            item_of(each, flags_of(each, tree), tree_tokens=tokens)
            for each in tree
            if each.workspace_id == (workspace_id or each.workspace_id)
        ]
        return TreeView(shown, sum(each.open for each in below), len(below), tokens)

    async def collab(self, root_id: str, workspace_id: str | None) -> CollabPage:
        """What the agents of a tree asked and wrote each other last; if a workspace is named, what its own asked, and
        letters to and from those. No more calls than fill a page, but at least one."""
        wish = {"root_id": root_id, "workspace_id": workspace_id, "count": self._limits.thread_rows}
        full = {"page_bytes": self._limits.page_bytes}
        calls = [Line(*row) for row in await self._store.rows("thread_calls_of_tree", {**wish, **full})]
        mail = [Mail.of(row) for row in await self._store.rows("thread_mail_of_tree", {**wish, "text_most": 0})]
        return CollabPage([line_item(each) for each in reversed(calls)], [mail_item(each) for each in reversed(mail)])

    # -- logs ----------------------------------------------------------------------------------------------------------

    async def entries(self, thread: Thread, after: int, count: int) -> EntryPage:
        """Lines of a log behind one of them: so many, or fewer where they fill a page, but at least one."""
        wish = {"thread_id": thread.thread_id, "after": after, **self._page(count)}
        rows, is_end = _cut(await self._store.rows("thread_entries_page", wish), count)
        lines = [Line(*row) for row in rows]
        texts = await self._base_texts([each for each in lines if each.type == BASE])
        return EntryPage([line_item(each, texts.get(each.ordinal)) for each in lines], is_end)

    async def _base_texts(self, lines: Sequence[Line]) -> dict[int, str]:
        """The base instructions that lines are about, by their ordinals."""
        wishes: list[Params] = [{"thread_id": each.thread_id, "version": _version_of(each)} for each in lines]
        found = await self._store.rows_of_each("thread_base", wishes)
        return {each.ordinal: str(rows[0][0]) for each, rows in zip(lines, found, strict=True) if rows}

    def _page(self, count: int) -> dict[str, object]:
        """One more than is wanted tells whether there are more."""
        return {"count": count + 1, "page_bytes": self._limits.page_bytes}

    async def sight(self, thread: Thread, *, stop: str | None = None) -> Sight:
        """What the model will see of a thread as it stands."""
        lines = await self._lines(thread)
        items = sight(seen_of(lines, thread.thread_id), thread.base, await self._base_text(thread))
        return Sight(items, tokens_in(items), thread.last_ordinal, stop)

    async def _lines(self, thread: Thread) -> list[Line]:
        """The whole log, read through what it was forked from."""
        chain, upto, since = list[list[Line]](), thread.last_ordinal, 0
        row: Thread | None = thread
        while row is not None:
            chain.append(await self._own_lines(row.thread_id, since, upto, _ALL))
            is_cut = since > 0  # what lies before the turns that are to be seen is not seen either
            upto, since = row.fork_at, row.fork_since
            row = None if is_cut or row.fork_id is None else await self.find(row.fork_id)
        return [line for lines in reversed(chain) for line in lines]

    async def _own_lines(self, thread_id: str, after: int, upto: int, count: int) -> list[Line]:
        wish = {"thread_id": thread_id, "after": after, "upto": upto, "count": count}
        return [Line(*row) for row in await self._store.rows("thread_entries_after", wish)]

    async def _base_text(self, thread: Thread) -> str:
        wish = {"thread_id": thread.base_thread, "version": thread.base_version}
        rows = await self._store.rows("thread_base", wish)
        return str(rows[0][0])

    # -- work ----------------------------------------------------------------------------------------------------------

    async def work(self, workspace_id: str, owner: str | None, seconds: float, *, own_too: bool = False) -> Work:
        """Threads that an engine may claim, or has claimed and that have a turn to begin, as soon as there is one;
        none, if that takes too long. `own_too`: also those in which it has begun a turn, as another life of it."""

        async def look() -> Look[list[WorkItem]]:
            now = self._clock.now()
            whose = {"workspace_id": workspace_id, "owner": owner, "now": now}
            wish = {**whose, "own_too": int(own_too), "count": self._limits.thread_rows}
            found = [_work_of(row) for row in await self._store.rows("thread_work", wish)]
            if found:
                return Look(found)
            ((until,),) = await self._store.rows("thread_work_held", whose)
            return Look(None, again_in=None if until is None else (until - now) / SECOND)

        return Work(await self._wakeups.until(work_key(workspace_id), look, seconds) or [])

    async def undriven(self, threads: Sequence[Thread]) -> list[Thread]:
        """Those of these threads that nobody runs: no engine holds them, and none has asked for work of their workspace
        lately."""
        seats, now = list(dict.fromkeys(each.workspace_id for each in threads)), self._clock.now()
        wishes: list[Params] = [{"workspace_id": each} for each in seats]
        since = now - self._limits.thread_engine_seconds * SECOND
        told = await self._store.rows_of_each("thread_engine", wishes)
        driven = {seat for seat, rows in zip(seats, told, strict=True) if rows and rows[0][0] > since}
        held = {each.thread_id for each in threads if each.owner is not None and each.owner_until > now}
        return [each for each in threads if each.workspace_id not in driven and each.thread_id not in held]


def _cut(rows: Sequence[Row], count: int) -> tuple[list[Row], bool]:
    """The rows of a page without how many there were, of which one more was asked for; whether none is behind them."""
    shown = rows[:count]
    return [row[:-1] for row in shown], not rows or rows[0][-1] <= len(shown)


def _version_of(line: Line) -> int:
    entry = entry_of(line.body)
    return entry.version if isinstance(entry, BaseSet) else 0


def _work_of(row: Row) -> WorkItem:
    thread_id, path, running, queue = row
    turn_id = running or msgspec.json.decode(queue, type=list[str])[0]
    return WorkItem(thread_id, path, turn_id, "accepted" if running is None else "running")
