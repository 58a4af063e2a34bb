"""Chains of messages that ran into a limit: what a person sees of them, and decides."""

from typing import Annotated

import msgspec
from msgspec import Struct

from molecule_core.access.model import Role
from molecule_core.edges.query import BEFORE, LIMIT, asks, choice, number, plain_text, whole_number
from molecule_core.edges.routes import PEOPLE, Answer, Call, Reach, Route, Who, json_answer
from molecule_core.ground.clock import rfc3339
from molecule_core.ground.errors import InvalidField, NotFound
from molecule_core.ground.limits import Limits
from molecule_core.messages.lineage import Chain, ChainMessage, State
from molecule_core.messages.reader import ChainReader
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.reader import OrgReader
from molecule_core.wire.chains import ChainDetail, ChainLine, ChainPage, ChainRow

_PAGE = 100


class Release(Struct):
    """How many messages more a chain may have; up to each limit once more if left out."""

    messages: Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)] | None = None


class ChainEdge:
    """The routes of chains."""

    def __init__(self, writer: MessageWriter, reader: ChainReader, org: OrgReader, *, limits: Limits) -> None:
        self._writer = writer.chains
        self._reader = reader
        self._org = org
        self._limits = limits

    def routes(self) -> list[Route]:
        """The rows for the table."""
        look, operate = Who(PEOPLE), Who(PEOPLE, Reach.NONE, Role.OPERATOR)
        every, one = "/orgs/{org_id}/chains", "/orgs/{org_id}/chains/{root_id}"
        found = asks(LIMIT, BEFORE, choice("state", "How they stand; frozen if left out.", ("all", *State)))
        paged = asks(LIMIT, number("after", "The number of the message behind which to go on."))
        return [
            Route(
                "GET", every, self.list, look, "Chains of messages that ran into a limit", None, ChainPage, query=found
            ),
            Route("GET", one, self.show, look, "One chain and its messages", None, ChainDetail, query=paged),
            Route("POST", f"{one}/release", self.release, operate, "Let a frozen chain go on", Release, ChainRow),
            Route("POST", f"{one}/end", self.end, operate, "End a chain for good", None, ChainRow),
        ]

    async def list(self, call: Call) -> Answer:
        """Newest first; `state` is frozen (if left out), released, ended or all; `before` (a root_id) pages back."""
        query = call.query()
        state = plain_text(query, "state") or State.FROZEN.value
        if state not in ("all", *State):
            raise InvalidField(reason="state must be frozen, released, ended or all")
        count = self._count(query)
        wanted = None if state == "all" else state
        found = await self._reader.chains(call.params["org_id"], wanted, plain_text(query, "before"), count + 1)
        return json_answer(ChainPage([self._row(chain) for chain in found[:count]], len(found) <= count))

    def _count(self, query: dict[str, str]) -> int:
        most = self._limits.page_rows
        return whole_number(query, "limit", least=1, most=most) or min(_PAGE, most)

    async def show(self, call: Call) -> Answer:
        """Its messages oldest first, behind number `after`. Also of a chain that never ran into a limit."""
        query, org_id, root_id = call.query(), call.params["org_id"], _root_of(call)
        count, after = self._count(query), whole_number(query, "after", least=0)
        chain = await self._reader.chain(org_id, root_id)
        found = await self._reader.messages(org_id, root_id, -1 if after is None else after, count + 1)
        if chain is None and after is None and not (found and found[0].chain_no == 0):
            raise NotFound(what="chain")
        row = None if chain is None else self._row(chain)
        lines = [self._line(message) for message in found[:count]]
        return json_answer(ChainDetail(root_id, row, lines, len(found) <= count))

    async def release(self, call: Call) -> Answer:
        """It goes on; once it runs into a limit again, a person is asked again."""
        more = call.read(Release).messages if call.body else None
        chain = await self._writer.release(call.params["org_id"], _root_of(call), _name_of(call), more)
        return json_answer(self._row(chain))

    async def end(self, call: Call) -> Answer:
        """No message of it is taken any more."""
        chain = await self._writer.end(call.params["org_id"], _root_of(call), _name_of(call))
        return json_answer(self._row(chain))

    def _row(self, chain: Chain) -> ChainRow:
        return ChainRow(
            root_id=chain.root_id,
            workspace_id=chain.workspace_id,
            workspace_name=self._name(chain.workspace_id),
            state=chain.state,
            reason=chain.reason,
            trips=chain.trips,
            hops=chain.hops,
            messages=chain.messages,
            most_hops=chain.most_hops,
            most_messages=chain.most_messages,
            frozen_at=rfc3339(chain.frozen_at),
            released_at=_time(chain.released_at),
            ended_at=_time(chain.ended_at),
            decided_by=chain.decided_by,
        )

    def _line(self, message: ChainMessage) -> ChainLine:
        return ChainLine(
            no=message.chain_no,
            activity_id=message.id,
            workspace_id=message.workspace_id,
            workspace_name=self._name(message.workspace_id),
            source_id=message.source_id,
            source_name=self._name(message.source_id),
            kind=message.kind,
            method=message.method,
            summary=message.summary,
            hop=message.hop,
            cause_id=message.cause_id,
            at=rfc3339(message.created_at),
        )

    def _name(self, workspace_id: str | None) -> str | None:
        workspace = None if workspace_id is None else self._org.workspace(workspace_id)
        return None if workspace is None else workspace.name


def _name_of(call: Call) -> str:
    return f"{call.by.kind.value}:{call.by.id}"


def _root_of(call: Call) -> str:
    return call.named("root_id", "chain")


def _time(at: int | None) -> str | None:
    return None if at is None else rfc3339(at)
