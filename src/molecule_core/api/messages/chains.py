"""Routes of message chains that reached a limit. People review them, release them or end them."""

from typing import Annotated

import msgspec
from msgspec import Struct

from molecule_core.access.model import Role
from molecule_core.api.http.response import Response
from molecule_core.api.query_parameters import (
    BEFORE,
    LIMIT,
    enum_param,
    int_param,
    query_params,
    read_int_param,
    read_text_param,
)
from molecule_core.api.routing import PERSON_OR_ADMIN, AccessPolicy, Request, Route, WorkspaceScope, json_response
from molecule_core.common.clock import to_optional_rfc3339, to_rfc3339
from molecule_core.common.errors import InvalidField, NotFound
from molecule_core.common.limits import Limits
from molecule_core.messages.chains.model import Chain, ChainMessage, ChainState
from molecule_core.messages.reader import ChainReader
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.reader import OrgReader
from molecule_core.wire.schemas.chains import ChainDetail, ChainMessageRow, ChainPage, ChainRow

_DEFAULT_PAGE = 100


class ReleaseChainBody(Struct):
    """Number of further messages to allow; each limit once more if left out."""

    messages: Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)] | None = None


class ChainRoutes:
    """Routes of chains."""

    def __init__(self, writer: MessageWriter, reader: ChainReader, org: OrgReader, *, limits: Limits) -> None:
        self._writer = writer.chains
        self._reader = reader
        self._org = org
        self._limits = limits

    def routes(self) -> list[Route]:
        """Return the routes."""
        viewer, operate = (
            AccessPolicy(PERSON_OR_ADMIN),
            AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.NONE, Role.OPERATOR),
        )
        every, one = "/orgs/{org_id}/chains", "/orgs/{org_id}/chains/{root_id}"
        found = query_params(
            LIMIT, BEFORE, enum_param("state", "Filter by state; default frozen.", ("all", *ChainState))
        )
        paged = query_params(LIMIT, int_param("after", "Page forwards from this number of a message."))
        return [
            Route(
                "GET",
                every,
                self.list_chains,
                viewer,
                "List message chains that reached a limit",
                None,
                ChainPage,
                query=found,
            ),
            Route("GET", one, self.get_chain, viewer, "Get a message chain", None, ChainDetail, query=paged),
            Route(
                "POST",
                f"{one}/release",
                self.release_chain,
                operate,
                "Resume a frozen chain",
                ReleaseChainBody,
                ChainRow,
            ),
            Route("POST", f"{one}/end", self.end_chain, operate, "End a message chain", None, ChainRow),
        ]

    async def list_chains(self, request: Request) -> Response:
        """List chains, newest first.

        `state`: frozen (default), released, ended or all; `before` (a root_id) pages back.
        """
        query = request.query_params()
        state = read_text_param(query, "state") or ChainState.FROZEN.value
        if state not in ("all", *ChainState):
            raise InvalidField(reason="state has an unknown value. Use frozen, released, ended or all.")
        count = self._page_size(query)
        state_filter = None if state == "all" else state
        found = await self._reader.list_chains(
            request.path_params["org_id"], state_filter, read_text_param(query, "before"), count + 1
        )
        return json_response(ChainPage([self._chain_row(chain) for chain in found[:count]], len(found) <= count))

    def _page_size(self, query: dict[str, str]) -> int:
        maximum = self._limits.page_rows
        return read_int_param(query, "limit", minimum=1, maximum=maximum) or min(_DEFAULT_PAGE, maximum)

    async def get_chain(self, request: Request) -> Response:
        """Return a chain and its messages, oldest first, after number `after`. It need not have reached a limit."""
        query, org_id, root_id = request.query_params(), request.path_params["org_id"], _root_id(request)
        count, after = self._page_size(query), read_int_param(query, "after", minimum=0)
        chain = await self._reader.find_chain(org_id, root_id)
        found = await self._reader.list_messages(org_id, root_id, -1 if after is None else after, count + 1)
        if chain is None and after is None and not (found and found[0].chain_no == 0):
            raise NotFound(what="chain")
        row = None if chain is None else self._chain_row(chain)
        messages = [self._message_row(message) for message in found[:count]]
        return json_response(ChainDetail(root_id, row, messages, len(found) <= count))

    async def release_chain(self, request: Request) -> Response:
        """Release a frozen chain; it freezes again at its next limit."""
        extra_messages = request.parse_body(ReleaseChainBody).messages if request.body else None
        chain = await self._writer.release(
            request.path_params["org_id"], _root_id(request), request.caller.key, extra_messages
        )
        return json_response(self._chain_row(chain))

    async def end_chain(self, request: Request) -> Response:
        """End a chain: further messages of it are rejected."""
        chain = await self._writer.end(request.path_params["org_id"], _root_id(request), request.caller.key)
        return json_response(self._chain_row(chain))

    def _chain_row(self, chain: Chain) -> ChainRow:
        return ChainRow(
            root_id=chain.root_id,
            workspace_id=chain.workspace_id,
            workspace_name=self._workspace_name(chain.workspace_id),
            state=chain.state,
            reason=chain.reason,
            trips=chain.trips,
            hops=chain.hops,
            messages=chain.messages,
            most_hops=chain.most_hops,
            most_messages=chain.most_messages,
            frozen_at=to_rfc3339(chain.frozen_at),
            released_at=to_optional_rfc3339(chain.released_at),
            ended_at=to_optional_rfc3339(chain.ended_at),
            decided_by=chain.decided_by,
        )

    def _message_row(self, message: ChainMessage) -> ChainMessageRow:
        return ChainMessageRow(
            no=message.chain_no,
            activity_id=message.id,
            workspace_id=message.workspace_id,
            workspace_name=self._workspace_name(message.workspace_id),
            source_id=message.source_id,
            source_name=self._workspace_name(message.source_id),
            kind=message.kind,
            method=message.method,
            summary=message.summary,
            hop=message.hop,
            cause_id=message.cause_id,
            at=to_rfc3339(message.created_at),
        )

    def _workspace_name(self, workspace_id: str | None) -> str | None:
        workspace = None if workspace_id is None else self._org.workspace(workspace_id)
        return None if workspace is None else workspace.name


def _root_id(request: Request) -> str:
    return request.path_param("root_id", "chain")
