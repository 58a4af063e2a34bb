"""Delegations over REST: to give work, to look how it stands, to wait for what becomes of it."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from msgspec import Meta, Struct

from molecule_core.access.model import Role
from molecule_core.approvals.reader import ApprovalReader
from molecule_core.delegations import rules
from molecule_core.delegations.model import Begin, Delegation, Taken
from molecule_core.delegations.reader import STATES, fact_shown
from molecule_core.edges.awaiting import Awaited, Awaiting
from molecule_core.edges.messages import checked_key, parts_of, sender_of
from molecule_core.edges.query import BEFORE, LIMIT, ORG, asks, choice, number, plain_text, text, whole_number
from molecule_core.edges.rates import SENDING
from molecule_core.edges.routes import ADMIN, EVERYBODY, PEOPLE, WORKSPACE, Answer, Call, Reach, Route, Who, json_answer
from molecule_core.edges.sight import Sight
from molecule_core.ground.errors import InvalidField, NotFound
from molecule_core.ground.limits import Limits
from molecule_core.ground.metrics import MessageMeter
from molecule_core.ground.text import ID_ALPHABET, is_client_id, plain_line
from molecule_core.org.reader import OrgReader
from molecule_core.views.timeline import TimeLine
from molecule_core.views.worktree import WorkTree
from molecule_core.wire.delegations import (
    Delegated,
    DelegationFull,
    DelegationItem,
    DelegationPage,
    DelegationStats,
    TimelinePage,
)
from molecule_core.wire.trace import trace_parent

_USUAL_PAGE = 50
ADMINS = frozenset((ADMIN,))
_BEGUN = "delegated"
_INBOX = "inbox"
_WAY = ("out", "in", "both")
_STATE = choice("state", "How they stand.", STATES)
Seconds = Annotated[int, Meta(ge=0, lt=1 << 31)]


class Delegate(Struct):
    """A task for another workspace. `wait`: so many seconds the request waits for its end. `idempotency_key`: the same
    one again gets the same delegation; the header Idempotency-Key says the same. `in_reply_to`: the message that the
    caller is at work on."""

    target_id: str
    task: str
    attachments: list[dict[str, Any]] = []
    idempotency_key: str | None = None
    wait: Seconds = 0
    deadline_seconds: Annotated[int, Meta(ge=1, lt=1 << 31)] | None = None
    in_reply_to: str | None = None
    context_id: str | None = None


class Wait(Struct):
    """So many seconds the request waits until the delegation stands otherwise."""

    wait: Seconds = 0


class Cancel(Struct):
    """Why a delegation is not wanted any more."""

    reason: str = ""


class DelegationEdge:
    """The routes of delegations."""

    def __init__(
        self,
        awaited: Awaited,
        approvals: ApprovalReader,
        views: tuple[WorkTree, TimeLine],
        org: OrgReader,
        catch_up: Callable[[], Awaitable[None]],
        counted: MessageMeter,
        *,
        limits: Limits,
    ) -> None:
        self._writer, self._reader, _ = awaited
        self._approvals = approvals
        self._sight = Sight(self._reader)
        self._awaiting = Awaiting(*awaited)
        self._trees, self._lines = views
        self._org = org
        self._catch_up = catch_up
        self._counted = counted
        self._limits = limits

    def routes(self) -> list[Route]:
        """The rows for the table."""
        one, every = "/workspaces/{id}", "/workspaces/{id}/delegations"
        own_agent, look = Who(frozenset((WORKSPACE,)), Reach.OWN), Who(EVERYBODY, Reach.OWN, Role.VIEWER)
        items, of_org = list[DelegationItem], "/orgs/{org_id}/delegations"
        wait, cancel = f"{every}/{{delegation_id}}/wait", f"{every}/{{delegation_id}}/cancel"
        source = Who(EVERYBODY, Reach.OWN, Role.OPERATOR)
        retry = f"{every}/{{delegation_id}}/retry"
        own_list = asks(
            LIMIT, BEFORE, _STATE, choice("direction", "Which end the workspace is; out if left out.", _WAY)
        )
        paged = asks(LIMIT, number("before", "The seq of the line from which to page back.", least=1))
        of_all = asks(LIMIT, BEFORE, _STATE, ORG)
        counted = asks(ORG)
        of_seat = asks(LIMIT, BEFORE, _STATE, text("workspace_id", "Those of this seat, on either side."))
        return [
            Route(
                "POST",
                f"{one}/delegate",
                self.begin,
                own_agent,
                "Give work",
                Delegate,
                Delegated,
                202,
                counts=SENDING,
                holds=True,
            ),
            Route(
                "GET", every, self.list, look, "What a workspace delegated, or was given", None, items, query=own_list
            ),
            Route(
                "GET",
                f"{one}/timeline",
                self.timeline,
                look,
                "What was said and delegated",
                None,
                TimelinePage,
                query=paged,
            ),
            Route("POST", wait, self.wait, own_agent, "Wait for what becomes of work", Wait, Delegated, holds=True),
            Route("POST", cancel, self.cancel, source, "Take work back", Cancel, DelegationItem, bare=True),
            Route("GET", "/delegations/{delegation_id}", self.show, Who(EVERYBODY), "One, whole", None, DelegationFull),
            Route("POST", retry, self.retry, source, "Begin work once more", None, Delegated, 202, counts=SENDING),
            Route(
                "GET", "/admin/delegations", self.everywhere, Who(ADMINS), "All delegations", None, items, query=of_all
            ),
            Route(
                "GET",
                "/admin/delegations/stats",
                self.stats,
                Who(ADMINS),
                "Counted",
                None,
                DelegationStats,
                query=counted,
            ),
            Route("GET", of_org, self.of_org, Who(PEOPLE), "What is delegated", None, DelegationPage, query=of_seat),
        ]

    # -- giving work ---------------------------------------------------------------------------------------------------

    async def begin(self, call: Call) -> Answer:
        """Begins a delegation. What the same workspace has given the same target already, under the same key or in the
        same words while that is open, is the answer instead, with `idempotent_hit`. The result is a message in the
        inbox of who delegated; `wait` waits until it is there."""
        asked = call.read(Delegate)
        begin = self._wish(call, asked)
        if self._org.workspace(asked.target_id) is None:  # another process may just have made it
            await self._catch_up()
        receipt = await self._awaiting.begun(self._writer.begin(begin))
        self._counted.accepted += not receipt.hit
        found = Taken(receipt.row, "", "")
        if asked.wait and receipt.row.open:
            found = await self._awaiting.end(call, receipt.row, begin.wait_seconds, receipt.held_until)
        return await self._told(found, is_hit=receipt.hit, is_new=not receipt.hit, status=202)

    def _wish(self, call: Call, asked: Delegate) -> Begin:
        for name in ("idempotency_key", "in_reply_to", "context_id"):
            self._check_id(getattr(asked, name), name)
        parts = parts_of(asked.task, asked.attachments, self._limits)
        return Begin(
            source_id=call.target.id,
            target_id=asked.target_id,
            parts=parts,
            task=asked.task,
            sender=sender_of(call.by),
            key=checked_key(call, self._limits) or asked.idempotency_key,
            wait_seconds=self._patience(asked.wait),
            deadline_seconds=asked.deadline_seconds,
            cause_id=asked.in_reply_to,
            context_id=asked.context_id,
            trace_parent=trace_parent(call.header(b"traceparent")),
        )

    def _check_id(self, given: str | None, name: str) -> None:
        limit = self._limits.id_length
        if given is not None and not is_client_id(given, limit):
            raise InvalidField(reason=f"{name} must be at most {limit} characters of {ID_ALPHABET}")

    def _patience(self, seconds: int) -> int:
        return min(seconds, self._limits.patience_most_seconds)

    async def wait(self, call: Call) -> Answer:
        """How a delegation of one's own stands, as soon as it stands otherwise than now."""
        seconds = self._patience(call.read(Wait).wait)
        row = await self._sight.given(call)
        found = Taken(row, "", "")
        if seconds:
            found = await self._awaiting.end(call, row, seconds, for_end=False)
        return await self._told(found, is_hit=False, is_new=False, status=200)

    async def cancel(self, call: Call) -> Answer:
        """Ends a delegation of this workspace; who works on it is told. One that has ended stays as it is."""
        reason = plain_line(call.read(Cancel).reason, self._limits.short_text_length)
        row = await self._writer.cancel(await self._sight.given(call), sender_of(call.by), reason)
        (item,) = await self._reader.items([row])
        return json_answer(item)

    async def retry(self, call: Call) -> Answer:
        """What has ended is begun once more, with the same task, target and time."""
        receipt = await self._writer.retry(await self._sight.given(call), sender_of(call.by))
        found = Taken(receipt.row, "", "")
        return await self._told(found, is_hit=receipt.hit, is_new=not receipt.hit, status=202)

    async def _told(self, found: Taken, *, is_hit: bool, is_new: bool, status: int) -> Answer:
        """The receipt. The text of a result comes once, here or with the message in the inbox; who asks again for what
        has ended reads it here too."""
        row, completed = found.row, found.row.reason is None
        told = Delegated(
            delegation_id=row.id,
            status=_BEGUN if is_new else row.status.value,
            target_id=row.target_id,
            state=row.status.value,
            phase=row.phase.value,
            idempotent_hit=is_hit,
            settled=not row.open,
            result=(found.text if completed else "") or ((row.result or "") if is_hit else ""),
            delivered="" if row.open else found.delivered or ("" if row.recorded else _INBOX),
            error=row.error or "",
            reason="" if row.reason is None else row.reason.value,
            advice="" if row.reason is None else rules.ADVICE[row.reason],
            retry_of=row.retry_of or "",
            warning=await self._reader.warning(row),
        )
        return json_answer(told, status)

    # -- how it stands -------------------------------------------------------------------------------------------------

    async def list(self, call: Call) -> Answer:
        """Newest first: what the workspace delegated (`direction` out, if left out), was given (in), or both. `state`
        is a status, or open; `before` (a delegation_id) pages back. Results are whole: a page ends early where they
        fill it (`page_bytes`), and only an empty one is behind the last."""
        query, own = call.query(), call.target
        way = plain_text(query, "direction") or _WAY[0]
        if way not in _WAY:
            raise InvalidField(reason=f"direction must be one of {', '.join(_WAY)}")
        state, count = _state(query), self._count(query)
        before = await self._before(own.org_id, query)
        if before is not None and own.id not in (before.source_id, before.target_id):
            raise NotFound(what="delegation")
        place = None if before is None else before.id
        if way == "both":
            rows = await self._reader.both(own.org_id, own.id, state, place, count)
        elif way == "in":
            rows = await self._reader.got(own.org_id, own.id, state, place, count)
        elif before is not None and before.source_id != own.id:
            raise InvalidField(reason="before must be a delegation that this workspace has given")
        else:
            rows = await self._reader.given(own.id, state, None if before is None else before.seq, count)
        return json_answer(await self._reader.items(rows))

    async def timeline(self, call: Call) -> Answer:
        """What the workspace and its users said and what it delegated, in the order of its log, oldest first; `before`
        (a `seq`) pages back. A page ends early where its lines fill it (`page_bytes`)."""
        query = call.query()
        before = whole_number(query, "before", least=1)
        return json_answer(await self._lines.page(call.target.id, before, self._count(query)))

    async def of_org(self, call: Call) -> Answer:
        """Newest first; `state` is a status, or open; of one `workspace_id` on either side, or of all; `before` (a
        delegation_id) pages back. `result` is null, `response_preview` its beginning; a page may end early
        (`page_bytes`). `open` and `stuck` count all of the organisation."""
        query, org_id = call.query(), call.params["org_id"]
        before = await self._before(org_id, query)
        seat = plain_text(query, "workspace_id")
        rows = await self._reader.page(org_id, _state(query), seat, before, self._count(query))
        opened, stuck = await self._reader.counts(org_id)
        return json_answer(DelegationPage(await self._reader.previews(rows), opened, stuck))

    async def everywhere(self, call: Call) -> Answer:
        """Newest first, of all organisations or of one `org_id`; `state` is a status, or open; `before` (a
        delegation_id) pages back. `result` is null, `response_preview` its beginning; a page may end early
        (`page_bytes`)."""
        query = call.query()
        place, org_id = plain_text(query, "before"), plain_text(query, "org_id")
        if org_id is not None:
            before = await self._before(org_id, query)
        else:
            before = None if place is None else await self._reader.anywhere(place)
        rows = await self._reader.page(org_id, _state(query), None, before, self._count(query))
        return json_answer(await self._reader.previews(rows))

    async def stats(self, call: Call) -> Answer:
        """How many delegations stand how, of all organisations or of one `org_id`."""
        return json_answer(await self._reader.stats(plain_text(call.query(), "org_id")))

    async def _before(self, org_id: str, query: dict[str, str]) -> Delegation | None:
        place = plain_text(query, "before")
        return None if place is None else await self._reader.one(org_id, place)

    def _count(self, query: dict[str, str]) -> int:
        most = self._limits.delegation_rows
        return whole_number(query, "limit", least=1, most=most) or min(_USUAL_PAGE, most)

    async def show(self, call: Call) -> Answer:
        """One delegation with all that happened to it, and the tree below it. A workspace reads those that it gave or
        was given, and all below those."""
        row = await self._sight.any(call)
        (item,) = await self._reader.items([row])
        line = await self._reader.time_line(row.org_id, row.id)
        needs = await self._approvals.of_task(row.org_id, row.id, row.target_id) if row.open else None
        full = DelegationFull(
            delegation=item,
            task=row.task,
            result=row.result,
            timeline=[fact_shown(each) for each in line],
            earlier=line[0].no - 1 if line else 0,
            tree=await self._trees.below(row),
            a2a_state=rules.a2a_state(row, needs_leave=needs is not None),
        )
        return json_answer(full)


def _state(query: dict[str, str]) -> str | None:
    state = plain_text(query, "state")
    if state is not None and state not in STATES:
        raise InvalidField(reason=f"state must be one of {', '.join(STATES)}")
    return state
