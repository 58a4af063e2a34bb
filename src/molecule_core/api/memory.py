"""Routes of agent memory: searchable memories, and values under keys. Both contain data, never instructions."""

from typing import Annotated, Any

import msgspec
from msgspec import Raw, Struct

from molecule_core.access.model import CredentialKind, Role
from molecule_core.api.http.response import Response
from molecule_core.api.query_parameters import (
    AFTER,
    BEFORE,
    LIMIT,
    enum_param,
    int_param,
    query_params,
    read_int_param,
    read_text_param,
    string_param,
)
from molecule_core.api.routing import ALL_CREDENTIALS, AccessPolicy, Request, Route, WorkspaceScope, json_response
from molecule_core.common.clock import to_optional_rfc3339, to_rfc3339
from molecule_core.common.errors import InsufficientRole, InvalidField
from molecule_core.common.limits import Limits
from molecule_core.memory.model import KeyValue, Memory, MemoryDraft, MemoryScope, RecallQuery
from molecule_core.memory.reader import KeyReader, MemoryReader
from molecule_core.memory.writer import KeyWriter, MemoryWriter
from molecule_core.org.reader import OrgReader

_MAX_VERSION = (1 << 63) - 1


class CommitMemoryBody(Struct):
    """A memory to store.

    `scope`: LOCAL (this workspace), TEAM (also its peers) or GLOBAL (the whole organisation).
    """

    content: str
    scope: str = MemoryScope.LOCAL.value
    namespace: str | None = None


class CommitMemoryResponse(Struct, omit_defaults=True):
    """Receipt of a stored memory. `redacted`: number of secrets removed before it was stored."""

    id: str
    scope: str
    namespace: str
    redacted: int = 0


class MemoryView(Struct):
    """A memory.

    `workspace_id`: the workspace that stored it; `written_by`: its author, as `kind:id`. Times are RFC 3339.
    """

    id: str
    workspace_id: str
    workspace_name: str | None
    scope: str
    namespace: str
    content: str
    written_by: str
    created_at: str


class PutValueBody(Struct):
    """A JSON value to store under a key.

    `if_match_version`: store only if the key has this version; 0: only if the key does not exist. Without `ttl_seconds`
    the value does not expire, even if it replaces one that would have expired.
    """

    key: str
    value: Any
    ttl_seconds: Annotated[int, msgspec.Meta(ge=1)] | None = None
    if_match_version: Annotated[int, msgspec.Meta(ge=0, le=_MAX_VERSION)] | None = None


class PutValueResponse(Struct):
    """Receipt of a stored value."""

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


class DeletedResponse(Struct):
    """Receipt of a deletion."""

    status: str = "deleted"


class MemoryRoutes:
    """Routes of a workspace's memories and values."""

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
        """Return the routes."""
        memories, keys = "/workspaces/{id}/memories", "/workspaces/{id}/memory"
        one_memory, one_key = f"{memories}/{{memory_id}}", f"{keys}/{{key}}"
        # Operators can issue a token of the workspace and read its memory with it, so they may read it here. Viewers
        # may not.
        own = AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.OWN, Role.OPERATOR)
        memory_query = query_params(
            LIMIT,
            BEFORE,
            string_param("q", "Only memories with all of these words."),
            enum_param("scope", "Only memories of this scope.", list(MemoryScope)),
            string_param("namespace", "Only memories of this namespace."),
        )
        paged = query_params(LIMIT, AFTER)
        matched = query_params(int_param("if_match_version", "Only if it has this version."))
        return [
            Route(
                "GET",
                memories,
                self.recall_memories,
                own,
                "List or search memories",
                None,
                list[MemoryView],
                query=memory_query,
            ),
            Route(
                "POST",
                memories,
                self.commit_memory,
                own,
                "Store a memory",
                CommitMemoryBody,
                CommitMemoryResponse,
                201,
            ),
            Route("DELETE", one_memory, self.forget_memory, own, "Delete a memory", None, DeletedResponse),
            Route(
                "GET",
                keys,
                self.list_values,
                own,
                "List the stored values of a workspace",
                None,
                list[EntryView],
                query=paged,
            ),
            Route("POST", keys, self.put_value, own, "Store a value", PutValueBody, PutValueResponse),
            Route("GET", one_key, self.get_value, own, "Get a stored value", None, EntryView, catch_all=True),
            Route(
                "DELETE",
                one_key,
                self.delete_value,
                own,
                "Delete a stored value",
                None,
                DeletedResponse,
                catch_all=True,
                query=matched,
            ),
        ]

    # -- memories ------------------------------------------------------------------------------------------------------

    async def recall_memories(self, request: Request) -> Response:
        """List memories, newest first.

        Includes the workspace's own, TEAM memories of its peers and GLOBAL ones of its organisation. `q`: only those
        that contain all these words; `scope`, `namespace`; `before` (an id) pages back.
        """
        query = request.query_params()
        maximum = self._limits.memory_recall
        recall_query = RecallQuery(
            text=query.get("q") or None,
            scope=_parse_scope(query["scope"]) if query.get("scope") else None,
            namespace=read_text_param(query, "namespace"),
            before=read_text_param(query, "before"),
            limit=read_int_param(query, "limit", minimum=1, maximum=maximum) or maximum,
        )
        return json_response(
            [self._memory_view(each) for each in await self._reader.recall(request.workspace.id, recall_query)]
        )

    async def commit_memory(self, request: Request) -> Response:
        """Store a memory, with secrets removed. GLOBAL requires a workspace at the top of the organisation."""
        body = request.parse_body(CommitMemoryBody)
        draft = MemoryDraft(body.content, _parse_scope(body.scope), body.namespace or "", request.caller.key)
        memory, redacted = await self._writer.save_memory(request.workspace.id, draft)
        return json_response(CommitMemoryResponse(memory.id, memory.scope, memory.namespace, redacted), 201)

    async def forget_memory(self, request: Request) -> Response:
        """Delete a memory. Requires the workspace that wrote it, or an owner."""
        memory_id = request.path_param("memory_id", "memory")
        if request.caller.kind is CredentialKind.PERSON and request.caller.role is not Role.OWNER:
            await self._reader.find(request.workspace.id, memory_id)
            raise InsufficientRole(role=request.caller.role.value, needed=Role.OWNER.value)
        await self._writer.delete_memory(request.workspace.id, memory_id)
        return json_response(DeletedResponse())

    def _memory_view(self, memory: Memory) -> MemoryView:
        author = self._org.workspace(memory.workspace_id)
        return MemoryView(
            id=memory.id,
            workspace_id=memory.workspace_id,
            workspace_name=None if author is None else author.name,
            scope=memory.scope,
            namespace=memory.namespace,
            content=memory.content,
            written_by=memory.written_by,
            created_at=to_rfc3339(memory.created_at),
        )

    # -- keys ----------------------------------------------------------------------------------------------------------

    async def list_values(self, request: Request) -> Response:
        """List values in key order, after the key `after`. A page ends early where large values would make it large."""
        query = request.query_params()
        maximum = max(1, min(self._limits.page_rows, self._limits.page_bytes // self._limits.memory_value_bytes))
        count = read_int_param(query, "limit", minimum=1, maximum=maximum) or maximum
        found = await self._entries.list_values(request.workspace.id, read_text_param(query, "after") or "", count)
        return json_response([_entry_view(each) for each in found])

    async def get_value(self, request: Request) -> Response:
        """Return a value with the version that a later write can name."""
        return json_response(
            _entry_view(await self._entries.get_value(request.workspace.id, request.path_param("key", "key")))
        )

    async def put_value(self, request: Request) -> Response:
        """Store a value and return its new version.

        Responds with 409 and the current version if `if_match_version` does not match.
        """
        body = request.parse_body(PutValueBody)
        value, maximum = msgspec.json.encode(body.value), self._limits.memory_value_bytes
        if len(value) > maximum:
            raise InvalidField(reason=f"value cannot have {len(value)} bytes as JSON. Use at most {maximum}.")
        if body.ttl_seconds is not None and body.ttl_seconds > self._limits.memory_ttl_seconds:
            raise InvalidField(
                reason=f"ttl_seconds cannot be {body.ttl_seconds}. Use at most {self._limits.memory_ttl_seconds}."
            )
        entry = await self._keys.set_value(
            request.workspace.id,
            body.key,
            value.decode(),
            ttl_seconds=body.ttl_seconds,
            if_match_version=body.if_match_version,
        )
        return json_response(
            PutValueResponse(
                entry.key, entry.version, to_optional_rfc3339(entry.expires_at), to_rfc3339(entry.updated_at)
            )
        )

    async def delete_value(self, request: Request) -> Response:
        """Delete a key; with `if_match_version`, only if it has this version."""
        expected = read_int_param(request.query_params(), "if_match_version", minimum=0, maximum=_MAX_VERSION)
        await self._keys.delete_value(request.workspace.id, request.path_param("key", "key"), if_match_version=expected)
        return json_response(DeletedResponse())


def _parse_scope(text: str) -> MemoryScope:
    try:
        return MemoryScope(text.upper())
    except ValueError:
        raise InvalidField(reason="scope has an unknown value. Use LOCAL, TEAM or GLOBAL.") from None


def _entry_view(entry: KeyValue) -> EntryView:
    return EntryView(
        key=entry.key,
        value=Raw(entry.value.encode()),
        version=entry.version,
        expires_at=to_optional_rfc3339(entry.expires_at),
        updated_at=to_rfc3339(entry.updated_at),
    )
