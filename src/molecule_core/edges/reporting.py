"""What the two sides of a delegation say of it by themselves: that there is one, how far it is, how it has ended.

Above: the table of routes. Below: the writer and the reader of delegations.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

from msgspec import Meta, Struct

from molecule_core.delegations.model import Delegation, Progress
from molecule_core.delegations.reader import DelegationReader
from molecule_core.delegations.writer import DelegationWriter, check_worker
from molecule_core.edges.messages import parts_of, sender_of
from molecule_core.edges.pacing import Pace
from molecule_core.edges.rates import SENDING
from molecule_core.edges.routes import WORKSPACE, Answer, Call, Reach, Route, Who, json_answer
from molecule_core.edges.sight import Sight
from molecule_core.ground.errors import InvalidField, InvalidMessage
from molecule_core.ground.limits import Limits
from molecule_core.ground.text import ID_ALPHABET, is_client_id, plain_line
from molecule_core.org.reader import OrgReader
from molecule_core.wire.delegations import Recorded, Reported, Updated

_RECORDED, _NOTED = "recorded", "noted"
_COMPLETED = "completed"
_MOST_TOOLS, _TOOL_LENGTH = 20, 100


class Record(Struct):
    """Work that went to another workspace by a way of the caller's own, under the caller's own id."""

    target_id: str
    task: str
    delegation_id: str


class Update(Struct):
    """How work has ended. `result` is the whole answer; older agents send no more of it than `response_preview`."""

    status: Literal["completed", "failed"]
    error: str | None = None
    response_preview: str | None = None
    result: str | None = None


class Report(Struct):
    """How far work is, in the words of who does it."""

    current_step: str = ""
    tools_used: Annotated[list[Annotated[str, Meta(max_length=_TOOL_LENGTH)]], Meta(max_length=_MOST_TOOLS)] = []
    eta_hint: str = ""
    percent: Annotated[int, Meta(ge=0, le=100)] | None = None


class ReportingEdge:
    """The routes by which the sides of a delegation speak of it."""

    def __init__(
        self,
        writer: DelegationWriter,
        reader: DelegationReader,
        pace: Pace,
        org: OrgReader,
        catch_up: Callable[[], Awaitable[None]],
        *,
        limits: Limits,
    ) -> None:
        self._writer = writer
        self._pace = pace
        self._sight = Sight(reader)
        self._org = org
        self._catch_up = catch_up
        self._limits = limits

    def routes(self) -> list[Route]:
        """The rows for the table."""
        every, own = "/workspaces/{id}/delegations", Who(frozenset((WORKSPACE,)), Reach.OWN)
        record, update = f"{every}/record", f"{every}/{{delegation_id}}/update"
        status, by_id = f"{every}/{{delegation_id}}/status", "/delegations/{delegation_id}/status"
        worker = Who(frozenset((WORKSPACE,)))
        return [
            Route("POST", record, self.record, own, "Note work given elsewhere", Record, Recorded, 202, counts=SENDING),
            Route("POST", update, self.update, own, "Say how work has ended", Update, Updated),
            Route("POST", status, self.report_as, own, "Say how far work is", Report, Reported),
            Route("POST", by_id, self.report, worker, "Say how far work is", Report, Reported),
        ]

    async def record(self, call: Call) -> Answer:
        """Notes work that the workspace gave another one by a way of its own: nobody is sent anything, and the
        workspace says itself how it ends. The same again is the first one."""
        said = call.read(Record)
        limit = self._limits.id_length
        if not is_client_id(said.delegation_id, limit):
            raise InvalidField(reason=f"delegation_id must be 1 to {limit} characters of {ID_ALPHABET}")
        parts_of(said.task, [], self._limits)  # a task like any other
        if self._org.workspace(said.target_id) is None:  # another process may just have made it
            await self._catch_up()
        receipt = await self._writer.record(
            call.target.id, said.delegation_id, said.target_id, said.task, sender_of(call.by)
        )
        return json_answer(Recorded(receipt.row.id, _RECORDED, receipt.hit), 202)

    async def update(self, call: Call) -> Answer:
        """Ends a delegation: one that the workspace was given, or one that it recorded itself. What has ended stays as
        it is, and the rest is noted as late."""
        said = call.read(Update)
        row = await self._sight.party(call)
        text = said.result or said.response_preview or ""
        if said.status == _COMPLETED and not row.recorded:
            parts_of(text, [], self._limits)  # green means evidence: there is an answer
        elif len(text.encode()) > self._limits.text_bytes:
            raise InvalidMessage(reason=f"the text is longer than {self._limits.text_bytes} bytes; shorten it")
        error = self._line(said.error or "")
        now = await self._writer.update(row, sender_of(call.by), said.status, text, error)
        return json_answer(Updated(now.id, now.status.value))

    async def report_as(self, call: Call) -> Answer:
        """How far the work on a delegation is that this workspace was given. The newest report is shown with it; none
        changes how it stands."""
        said = self._progress(call)
        return await self._reported(call, await self._sight.party(call), said)

    async def report(self, call: Call) -> Answer:
        """How far the work on a delegation is, said by whoever works on it. The newest report is shown with it; none
        changes how it stands."""
        said = self._progress(call)
        return await self._reported(call, await self._sight.any(call), said)

    async def _reported(self, call: Call, row: Delegation, said: Progress) -> Answer:
        by = sender_of(call.by)
        check_worker(row, by)
        now = row if row.status.ended else await self._pace.report(row, by, said)
        return json_answer(Reported(_NOTED, not now.status.ended, now.status.value))

    def _progress(self, call: Call) -> Progress:
        said = call.read(Report)
        tools = tuple(map(self._line, said.tools_used))
        return Progress(self._line(said.current_step), tools, self._line(said.eta_hint), said.percent)

    def _line(self, text: str) -> str:
        return plain_line(text, self._limits.short_text_length)
