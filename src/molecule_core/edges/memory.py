"""What agents wish to remember: memories that are searched, and values under keys. What they hold is data."""

from typing import Annotated, Any

import msgspec
from msgspec import Raw, Struct

from molecule_core.access.model import Kind, Role
from molecule_core.edges.query import AFTER, BEFORE, LIMIT, asks, choice, number, plain_text, text, whole_number
from molecule_core.edges.routes import EVERYBODY, Answer, Call, Reach, Route, Who, json_answer
from molecule_core.ground.clock import rfc3339
from molecule_core.ground.errors import InvalidField, RoleTooLow
from molecule_core.ground.limits import Limits
from molecule_core.memory.model import Draft, Entry, Memory, Scope, Wish
from molecule_core.memory.reader import KeyReader, MemoryReader
from molecule_core.memory.writer import KeyWriter, MemoryWriter
from molecule_core.org.reader import OrgReader

_MOST_VERSION = (1 << 63) - 1


class Commit(Struct):
    """What is to be remembered. `scope`: LOCAL (for the workspace itself), TEAM (also for its peers) or GLOBAL (for the
    whole organisation)."""

    content: str
    scope: str = Scope.LOCAL.value
    namespace: str | None = None


class Remembered(Struct, omit_defaults=True):
    """A memory is kept. `redacted`: so many secrets were taken out of it before."""

    id: str
    scope: str
    namespace: str
    redacted: int = 0


class MemoryView(Struct):
    """A memory. `workspace_id`: who remembers it; `written_by`: who said so, as `kind:id`. Times are RFC 3339."""

    id: str
    workspace_id: str
    workspace_name: str | None
    scope: str
    namespace: str
    content: str
    written_by: str
    created_at: str


class Put(Struct):
    """A value, any JSON, under a key. `if_match_version`: only if the key has this version; 0: only if it is not there.
    Without `ttl_seconds` it stays, also where it was to end before."""

    key: str
    value: Any
    ttl_seconds: Annotated[int, msgspec.Meta(ge=1)] | None = None
    if_match_version: Annotated[int, msgspec.Meta(ge=0, le=_MOST_VERSION)] | None = None


class Saved(Struct):
    """A value is kept."""

    key: str
    version: int
    expires_at: str | None
    updated_at: str
    status: str = "ok"


class EntryView(Struct):
    """A value under a key."""

    key: str
    value: Raw
    version: int
    expires_at: str | None
    updated_at: str


class Gone(Struct):
    """It is not there any more."""

    status: str = "deleted"


class MemoryEdge:
    """The routes of a workspace's memory."""

    def __init__(
        self,
        writer: MemoryWriter,
        reader: MemoryReader,
        keys: KeyWriter,
        entries: KeyReader,
        org: OrgReader,
        *,
        limits: Limits,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._keys = keys
        self._entries = entries
        self._org = org
        self._limits = limits

    def routes(self) -> list[Route]:
        """The rows for the table."""
        memories, keys = "/workspaces/{id}/memories", "/workspaces/{id}/memory"
        one_memory, one_key = f"{memories}/{{memory_id}}", f"{keys}/{{key}}"
        # Whoever may issue a token of the workspace may read what it remembers; who only looks may not.
        own = Who(EVERYBODY, Reach.OWN, Role.OPERATOR)
        wanted = asks(
            LIMIT,
            BEFORE,
            text("q", "Only those that hold all these words."),
            choice("scope", "Only those of this scope.", list(Scope)),
            text("namespace", "Only those of this namespace."),
        )
        paged = asks(LIMIT, AFTER)
        matched = asks(number("if_match_version", "Only if it has this version."))
        return [
            Route("GET", memories, self.recall, own, "Recall memories", None, list[MemoryView], query=wanted),
            Route("POST", memories, self.commit, own, "Remember something", Commit, Remembered, 201),
            Route("DELETE", one_memory, self.forget, own, "Forget a memory", None, Gone),
            Route("GET", keys, self.list, own, "The values of a workspace", None, list[EntryView], query=paged),
            Route("POST", keys, self.put, own, "Put a value under a key", Put, Saved),
            Route("GET", one_key, self.get, own, "A value under a key", None, EntryView, deep=True),
            Route("DELETE", one_key, self.delete, own, "Remove a key", None, Gone, deep=True, query=matched),
        ]

    # -- memories ------------------------------------------------------------------------------------------------------

    async def recall(self, call: Call) -> Answer:
        """Newest first: the workspace's own, TEAM memories of its peers, GLOBAL ones of its organisation. `q`: only
        those that hold all these words; `scope`, `namespace`; `before` (an id) pages back."""
        query = call.query()
        most = self._limits.memory_recall
        wish = Wish(
            text=query.get("q") or None,
            scope=_scope(query["scope"]) if query.get("scope") else None,
            namespace=plain_text(query, "namespace"),
            before=plain_text(query, "before"),
            most=whole_number(query, "limit", least=1, most=most) or most,
        )
        return json_answer([self._view(each) for each in await self._reader.recall(call.target.id, wish)])

    async def commit(self, call: Call) -> Answer:
        """Secrets are taken out first. GLOBAL is for workspaces at the top of the organisation."""
        said = call.read(Commit)
        draft = Draft(said.content, _scope(said.scope), said.namespace or "", f"{call.by.kind.value}:{call.by.id}")
        memory, redacted = await self._writer.commit(call.target.id, draft)
        return json_answer(Remembered(memory.id, memory.scope, memory.namespace, redacted), 201)

    async def forget(self, call: Call) -> Answer:
        """For the workspace that wrote it, and for owners."""
        memory_id = call.named("memory_id", "memory")
        if call.by.kind is Kind.PERSON and call.by.role is not Role.OWNER:
            await self._reader.find(call.target.id, memory_id)
            raise RoleTooLow(role=call.by.role.value, needed=Role.OWNER.value)
        await self._writer.forget(call.target.id, memory_id)
        return json_answer(Gone())

    def _view(self, memory: Memory) -> MemoryView:
        author = self._org.workspace(memory.workspace_id)
        return MemoryView(
            id=memory.id,
            workspace_id=memory.workspace_id,
            workspace_name=None if author is None else author.name,
            scope=memory.scope,
            namespace=memory.namespace,
            content=memory.content,
            written_by=memory.written_by,
            created_at=rfc3339(memory.created_at),
        )

    # -- keys ----------------------------------------------------------------------------------------------------------

    async def list(self, call: Call) -> Answer:
        """In the order of the keys, behind key `after`; a page ends early where large values would make it large."""
        query = call.query()
        most = max(1, min(self._limits.page_rows, self._limits.page_bytes // self._limits.memory_value_bytes))
        count = whole_number(query, "limit", least=1, most=most) or most
        found = await self._entries.entries(call.target.id, plain_text(query, "after") or "", count)
        return json_answer([_entry(each) for each in found])

    async def get(self, call: Call) -> Answer:
        """Its version is what a later write may name."""
        return json_answer(_entry(await self._entries.entry(call.target.id, call.named("key", "key"))))

    async def put(self, call: Call) -> Answer:
        """The answer has the new version. Where another one was named than the key has: 409 with the current one."""
        said = call.read(Put)
        value, most = msgspec.json.encode(said.value), self._limits.memory_value_bytes
        if len(value) > most:
            raise InvalidField(reason=f"value has {len(value)} bytes as JSON; at most {most} are taken")
        if said.ttl_seconds is not None and said.ttl_seconds > self._limits.memory_ttl_seconds:
            raise InvalidField(reason=f"ttl_seconds may be at most {self._limits.memory_ttl_seconds}")
        entry = await self._keys.put(
            call.target.id,
            said.key,
            value.decode(),
            ttl_seconds=said.ttl_seconds,
            if_match_version=said.if_match_version,
        )
        return json_answer(Saved(entry.key, entry.version, _time(entry.expires_at), rfc3339(entry.updated_at)))

    async def delete(self, call: Call) -> Answer:
        """With `if_match_version`: only that version."""
        expected = whole_number(call.query(), "if_match_version", least=0, most=_MOST_VERSION)
        await self._keys.forget(call.target.id, call.named("key", "key"), if_match_version=expected)
        return json_answer(Gone())


def _scope(text: str) -> Scope:
    try:
        return Scope(text.upper())
    except ValueError:
        raise InvalidField(reason="scope must be LOCAL, TEAM or GLOBAL") from None


def _entry(entry: Entry) -> EntryView:
    return EntryView(
        key=entry.key,
        value=Raw(entry.value.encode()),
        version=entry.version,
        expires_at=_time(entry.expires_at),
        updated_at=rfc3339(entry.updated_at),
    )


def _time(at: int | None) -> str | None:
    return None if at is None else rfc3339(at)
