"""Approvals over REST: to ask for leave, to decide, to use; and to say what needs leave, or is decided alone."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from molecule_core.access.model import Kind as Credential
from molecule_core.access.model import Role
from molecule_core.approvals import rules
from molecule_core.approvals.model import Approval, Decision, Kind, Request, Said, Wish
from molecule_core.approvals.reader import ORG_STATES, STATES, ApprovalReader
from molecule_core.approvals.writer import ApprovalWriter
from molecule_core.edges.auth import Guards
from molecule_core.edges.messages import checked_key
from molecule_core.edges.policies import grants_said, rules_said
from molecule_core.edges.query import AFTER, BEFORE, LIMIT, WAIT, asks, choice, number, plain_text, text, whole_number
from molecule_core.edges.rates import SENDING
from molecule_core.edges.routes import EVERYBODY, PEOPLE, WORKSPACE, Answer, Call, Reach, Route, Who, json_answer
from molecule_core.ground.clock import rfc3339
from molecule_core.ground.errors import InvalidField, NotFound
from molecule_core.ground.limits import Limits
from molecule_core.ground.text import clean_line, is_client_id, shorten
from molecule_core.org.reader import OrgReader
from molecule_core.threads.reader import ThreadReader
from molecule_core.wire.approvals import ApprovalItem, ApprovalPage, Authority, Party, Policy, RuleSet, Used

_SESSION_LENGTH = 10
_DECISIONS = {
    **{each.value: each for each in Decision},
    "approved": Decision.APPROVE,
    "denied": Decision.DENY,
}
_ROLES = ("requester", "holder", "any")
_ORG = text("org", "Which organisation, for the admin.")
_MOST_TIME = 1 << 31


class Ask(Struct):
    """What a workspace wants to be allowed. `context` is another name of `details`; `expires_in`: seconds; `source`: on
    which way its agent asks, as the agent itself says. `thread_id`: the thread of the workspace in which it asks."""

    action: str
    reason: str = ""
    details: dict[str, Any] | None = None
    context: dict[str, Any] | None = None
    cost: Annotated[float, Meta(ge=0)] | None = None
    expires_in: Annotated[int, Meta(ge=1, lt=_MOST_TIME)] | None = None
    task_id: str | None = None
    thread_id: str | None = None
    source: Literal["api", "tool", "relay", "a2a", "thread"] = "api"


class Decide(Struct):
    """A decision: approve (approved), deny (denied), escalate or more_info. `revision` and `action_hash`: of what was
    shown; what has changed since it was first asked for is approved only with one of them. `details`: approved with
    these instead. `holder`: of a person who passes it on, whose turn it was (a workspace_id); without it, to do so
    twice is to do so once."""

    decision: str
    revision: int | None = None
    action_hash: str | None = None
    note: str = ""
    details: dict[str, Any] | None = None
    holder: str | None = None


class More(Struct):
    """What the requester says to a question. `details`: it asks for this now."""

    text: str
    details: dict[str, Any] | None = None


class Withdraw(Struct):
    """Why it is not wanted any more."""

    note: str = ""


class Use(Struct):
    """What is about to be done."""

    action_hash: str


class ApprovalEdge:
    """The routes of approvals."""

    def __init__(
        self,
        writer: ApprovalWriter,
        reader: ApprovalReader,
        threads: ThreadReader,
        org: OrgReader,
        guards: Guards,
        *,
        limits: Limits,
    ) -> None:
        self._threads = threads
        self._writer = writer
        self._reader = reader
        self._org = org
        self._guards = guards
        self._limits = limits

    def routes(self) -> list[Route]:
        """The rows for the table."""
        every = "/workspaces/{id}/approvals"
        one, item = f"{every}/{{approval_id}}", ApprovalItem
        own_agent, look = Who(frozenset((WORKSPACE,)), Reach.OWN), Who(EVERYBODY, Reach.OWN, Role.VIEWER)
        # A workspace may name the requester's id or its own; which it may decide about, says the approval.
        decides, own = Who(EVERYBODY, Reach.TALK, Role.OPERATOR), Who(EVERYBODY, Reach.OWN, Role.OPERATOR)
        sets = Who(PEOPLE, Reach.OWN, Role.OPERATOR)
        needs, alone = "/workspaces/{id}/approval-rules", "/workspaces/{id}/standing-authority"
        of_one = asks(
            LIMIT,
            BEFORE,
            choice("role", "What the workspace is to them; requester if left out.", _ROLES),
            choice("state", "How they stand.", STATES),
        )
        waits = asks(WAIT, number("seq", "Wait for a change after this one."))
        waiting = asks(LIMIT, AFTER, _ORG)
        of_all = asks(LIMIT, BEFORE, _ORG, choice("state", "How they stand.", ORG_STATES))
        return [
            Route("POST", every, self.ask, own_agent, "Ask for leave", Ask, item, 201, counts=SENDING),
            Route(
                "GET",
                every,
                self.every,
                look,
                "What was asked for, or is to be decided",
                None,
                ApprovalPage,
                query=of_one,
            ),
            Route("GET", one, self.show, look, "One approval", None, item, query=waits),
            Route("POST", f"{one}/decide", self.decide, decides, "Decide", Decide, item),
            Route("POST", f"{one}/answer", self.answer, own_agent, "Answer a question about it", More, item),
            Route("POST", f"{one}/withdraw", self.withdraw, own, "Take a request back", Withdraw, item, bare=True),
            Route("POST", f"{one}/use", self.use, own_agent, "Use an approval, once", Use, Used),
            Route(
                "GET", "/approvals/pending", self.pending, Who(PEOPLE), "What waits", None, ApprovalPage, query=waiting
            ),
            Route(
                "GET",
                "/approvals",
                self.of_org,
                Who(PEOPLE),
                "All of an organisation",
                None,
                ApprovalPage,
                query=of_all,
            ),
            Route("GET", needs, self.rules, look, "What needs leave", None, RuleSet),
            Route("PUT", needs, self.set_rules, sets, "Say what needs leave", RuleSet, RuleSet),
            Route("GET", alone, self.authority, look, "What it decides by itself", None, Authority),
            Route("PUT", alone, self.set_authority, sets, "Say what it decides by itself", Authority, Authority),
        ]

    # -- the requester -------------------------------------------------------------------------------------------------

    async def ask(self, call: Call) -> Answer:
        """Asks the workspace above for leave, and so on up to a person. The same under the same Idempotency-Key is the
        first one. It may be decided in the answer already, by somebody's standing authority."""
        asked, own = call.read(Ask), call.target
        if asked.details is not None and asked.context is not None:
            raise InvalidField(reason="context is another name of details: send one of them")
        action = clean_line(asked.action, self._limits.short_text_length, "action")
        if not action:
            raise InvalidField(reason="action is empty; say what is to be done")
        if action.startswith(rules.tool_action("")):
            raise InvalidField(reason="actions that begin with tool: are the server's own; call the tool instead")
        if asked.task_id is not None and not is_client_id(asked.task_id, self._limits.id_length):
            raise InvalidField(reason="task_id must be an id")
        await self._check_thread(asked.thread_id, own.id)
        used_before = await self._reader.used_before(own.id, action)
        rule = rules.needs(self._reader.policies(own.id).rules, action, asked.cost, used_before=used_before)
        opened = await self._writer.request(
            Request(
                workspace_id=own.id,
                action=action,
                reason=self._text(asked.reason),
                details=self._details(asked.details or asked.context) or {},
                cost=asked.cost,
                expires_in=asked.expires_in,
                task_id=asked.task_id,
                thread_id=asked.thread_id,
                source=asked.source,
                key=checked_key(call, self._limits),  # control: approval-key
                risk=rules.risks(asked.cost, used_before=used_before),
                policy=() if rule is None else (Policy("rule", rules.rule_text(rule)),),
            )
        )
        return json_answer(self._reader.item(opened.row), 200 if opened.hit else 201)

    async def _check_thread(self, thread_id: str | None, workspace_id: str) -> None:
        """Leave is asked for in a thread of one's own. Raises InvalidField."""
        if thread_id is None:
            return
        thread = await self._threads.find(thread_id)
        if thread is None or thread.workspace_id != workspace_id:
            raise InvalidField(reason="thread_id must be a thread of this workspace")

    async def answer(self, call: Call) -> Answer:
        """The requester says more: the revision rises, and it goes back to who asked."""
        said = call.read(More)
        text = self._text(said.text)
        if not text.strip():
            raise InvalidField(reason="text is empty; answer the question")
        row = await self._own(call)
        changed = await self._writer.answer(row, self._party(call), text, self._details(said.details))
        return json_answer(self._reader.item(changed))

    async def withdraw(self, call: Call) -> Answer:
        """It is not wanted any more. Again changes nothing."""
        note = self._text(call.read(Withdraw).note)
        row = await self._writer.withdraw(await self._own(call), self._party(call), note)
        return json_answer(self._reader.item(row))

    async def use(self, call: Call) -> Answer:
        """Right before the action: 200 once, for exactly the action that was approved; again for the same use, which
        has the same Idempotency-Key."""
        wish, key = call.read(Use), checked_key(call, self._limits)
        # No client can give a request this name: an approval may be asked for under the same key as it is used.
        name = None if key is None else f"use/{key}"
        row = await self._writer.use(await self._own(call), wish.action_hash, name)
        return json_answer(Used(row.id, rfc3339(row.used_at or 0)))

    # -- deciding ------------------------------------------------------------------------------------------------------

    async def decide(self, call: Call) -> Answer:
        """The holder decides, or a person (owner or operator). The first decision holds; the same by the same again is
        the same answer. The path names the requester, or who decides."""
        said = call.read(Decide)
        decision = _DECISIONS.get(said.decision)
        if decision is None:
            raise InvalidField(reason=f"decision must be one of {', '.join(_DECISIONS)}")
        if said.details is not None and decision is not Decision.APPROVE:
            raise InvalidField(reason="details can be changed only by approving with them")
        note = self._text(said.note)
        if decision is Decision.MORE_INFO and not note.strip():
            raise InvalidField(reason="note is empty; say in it what you want to know")
        row = await self._seen(call)
        session = self._guards.credential_hash(call.headers)[:_SESSION_LENGTH]
        wish = Wish(decision, said.revision, said.action_hash, said.holder)
        details = self._details(said.details)
        decided = await self._writer.decide(
            row, Said(wish=wish, by=self._party(call), note=note, details=details, session=session)
        )
        return json_answer(self._reader.item(decided))

    async def pending(self, call: Call) -> Answer:
        """What is not decided in an organisation, the oldest first; `after` (an approval_id) pages on. `for_person`:
        it waits for a person."""
        query = call.query()
        org_id = self._asked_org(call, query)
        count, place = self._count(query), plain_text(query, "after")
        after = None if place is None else await self._reader.one(org_id, place)
        return self._page(await self._reader.pending(org_id, after, count + 1), count)

    async def of_org(self, call: Call) -> Answer:
        """Of a whole organisation, the newest first. `state`: a status, open, or decided; `before` (an approval_id)
        pages back."""
        query, state = call.query(), plain_text(call.query(), "state")
        org_id = self._asked_org(call, query)
        if state is not None and state not in ORG_STATES:
            raise InvalidField(reason=f"state must be one of {', '.join(ORG_STATES)}")
        count, place = self._count(query), plain_text(query, "before")
        before = None if place is None else await self._reader.one(org_id, place)
        return self._page(await self._reader.of_org(org_id, state, before, count + 1), count)

    def _asked_org(self, call: Call, query: dict[str, str]) -> str:
        """The organisation that is asked about, if the caller belongs to it. Raises NotFound."""
        caller = call.by
        org_id = plain_text(query, "org") or caller.org_id or self._org.orgs()[0].id
        is_its = caller.kind is Credential.ADMIN or caller.org_id == org_id
        if not is_its or self._org.find_org(org_id) is None:
            raise NotFound(what="organisation")
        return org_id

    # -- looking -------------------------------------------------------------------------------------------------------

    async def every(self, call: Call) -> Answer:
        """Newest first. `role`: requester (if left out), holder (what it was asked to decide), or any; `state`: a
        status, or open; `before` (an approval_id) pages back."""
        query, own = call.query(), call.target
        role, state = plain_text(query, "role") or _ROLES[0], plain_text(query, "state")
        if role not in _ROLES:
            raise InvalidField(reason=f"role must be one of {', '.join(_ROLES)}")
        if state is not None and state not in STATES:
            raise InvalidField(reason=f"state must be one of {', '.join(STATES)}")
        count, place = self._count(query), plain_text(query, "before")
        before = None if place is None else await self._reader.one(own.org_id, place)
        if before is not None and own.id not in (before.workspace_id, *before.had):
            raise NotFound(what="approval")
        if role == "requester":
            rows = await self._reader.requested(own.id, state, before, count + 1)
        elif role == "holder":
            rows = await self._reader.held(own.org_id, own.id, state, before, count + 1)
        else:
            rows = await self._reader.any(own.org_id, own.id, state, before, count + 1)
        return self._page(rows, count)

    async def show(self, call: Call) -> Answer:
        """One, for who asked for it, all who were asked to decide it, and persons. `wait` (seconds) waits until it has
        changed since `seq`."""
        query, row = call.query(), await self._seen(call)
        wait = whole_number(query, "wait", least=0, most=self._limits.wait_seconds)
        seq = whole_number(query, "seq", least=0)
        if wait and row.open and (seq is None or row.rev <= seq):
            row = await self._reader.wait(row, wait)
        return json_answer(self._reader.item(row))

    # -- what is set ---------------------------------------------------------------------------------------------------

    async def rules(self, call: Call) -> Answer:
        """Which actions of this workspace need an approval."""
        return json_answer(RuleSet(list(self._reader.policies(call.target.id).rules)))

    async def set_rules(self, call: Call) -> Answer:
        """From now on these actions of this workspace need an approval, and no others."""
        needs = rules_said(call.read(RuleSet), self._limits)
        by = f"{call.by.kind.value}:{call.by.id}"
        found = await self._writer.set_policies(call.target.id, by, needs=needs)
        return json_answer(RuleSet(list(found.rules)))

    async def authority(self, call: Call) -> Answer:
        """Which actions this workspace approves by itself for those below it."""
        return json_answer(Authority(list(self._reader.policies(call.target.id).grants)))

    async def set_authority(self, call: Call) -> Answer:
        """From now on this workspace approves these actions by itself for those below it, and no others."""
        grants = grants_said(call.read(Authority), self._limits)
        by = f"{call.by.kind.value}:{call.by.id}"
        found = await self._writer.set_policies(call.target.id, by, grants=grants)
        return json_answer(Authority(list(found.grants)))

    # -- steps ---------------------------------------------------------------------------------------------------------

    async def _seen(self, call: Call) -> Approval:
        """The approval of the path, if the workspace of the path and the caller have a part in it. Raises NotFound."""
        row = await self._reader.one(call.target.org_id, _id_of(call))
        parties = (row.workspace_id, *row.had)
        is_agent = call.by.kind is Credential.WORKSPACE
        is_party = call.by.id in parties if is_agent else True
        names_one = call.target.id in (row.workspace_id, call.by.id) if is_agent else call.target.id in parties
        if not is_party or not names_one:
            raise NotFound(what="approval")
        return row

    async def _own(self, call: Call) -> Approval:
        """The approval of the path, if the workspace of the path has asked for it. Raises NotFound."""
        row = await self._reader.one(call.target.org_id, _id_of(call))
        if row.workspace_id != call.target.id:
            raise NotFound(what="approval")
        return row

    def _party(self, call: Call) -> Party:
        """Who acts, as the credential proves it."""
        if call.by.kind is not Credential.WORKSPACE:
            return Party(Kind.PERSON.value, call.by.id, call.by.name)
        seat = self._org.workspace(call.by.id)
        return Party(Kind.WORKSPACE.value, call.by.id, "" if seat is None else seat.name)

    def _page(self, rows: list[Approval], count: int) -> Answer:
        return json_answer(ApprovalPage([self._reader.item(row) for row in rows[:count]], len(rows) <= count))

    def _count(self, query: dict[str, str]) -> int:
        most = self._limits.approval_rows
        return whole_number(query, "limit", least=1, most=most) or most

    def _text(self, text: str) -> str:
        return shorten(text, self._limits.approval_text_length)

    def _details(self, details: dict[str, Any] | None) -> dict[str, Any] | None:
        if details is not None and len(rules.canonical(details).encode()) > self._limits.approval_bytes:
            raise InvalidField(reason=f"details have more than {self._limits.approval_bytes} bytes; say less")
        return details


def _id_of(call: Call) -> str:
    """The approval that the path names. Raises NotFound."""
    return call.named("approval_id", "approval")
