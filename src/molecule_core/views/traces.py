"""Trace of a request: the messages, delegations, approvals and turns that it caused."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from molecule_core.approvals.model import Approval
from molecule_core.approvals.reader import ApprovalReader
from molecule_core.common.clock import SECOND, Clock, to_optional_rfc3339, to_rfc3339
from molecule_core.common.limits import Limits
from molecule_core.delegations.model import Delegation
from molecule_core.delegations.reader import DelegationReader
from molecule_core.messages.model import TracedMessage, TurnLog
from molecule_core.messages.reader import TraceReader
from molecule_core.org.reader import OrgReader
from molecule_core.threads.model import ROOT_PATH, TracedTurn
from molecule_core.threads.reader import ThreadReader
from molecule_core.usage.reader import UsageReader
from molecule_core.views.delegation_tree import DelegationTreeReader
from molecule_core.wire.schemas.traces import TraceApproval, TraceDetail, TraceMessage, TraceTurn

_OPEN = "open"
Costs = Mapping[tuple[str, str], int]
"""Known costs in micro-units, by workspace and key of the turn."""


class TurnReaders(NamedTuple):
    """Readers of turns of threads, and of what turns used."""

    threads: ThreadReader
    usage: UsageReader


class _Participation(Struct):
    """Time during which a workspace took part in a request, and the row of its log with which that began.

    Times are microseconds. `until` None: it still takes part."""

    since: int
    until: int | None
    seq: int | None


class RequestTraceReader:
    """Reader of the traces of requests."""

    def __init__(
        self,
        messages: TraceReader,
        delegations: DelegationReader,
        trees: DelegationTreeReader,
        approvals: ApprovalReader,
        turns: TurnReaders,
        org: OrgReader,
        *,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._messages = messages
        self._delegations = delegations
        self._trees = trees
        self._approvals = approvals
        self._threads = turns.threads
        self._usage = turns.usage
        self._org = org
        self._clock = clock
        self._limits = limits

    async def find_trace(self, org_id: str, activity_id: str) -> TraceDetail | None:
        """Return what the request that a message belongs to has caused; None if there is no such message.

        `activity_id`: of any message of the chain, or the id of a delegation in it. Each list has at most
        `page_rows` items."""
        most = self._limits.page_rows
        messages = await self._messages.list_messages(org_id, activity_id, most + 1)
        if not messages:
            return None
        root_id = messages[0].id
        delegations = await self._delegations.list_of_chain(org_id, root_id, most + 1)
        spans = _spans(messages[:most], delegations[:most])
        approvals = await self._list_approvals(spans, most)
        records = await self._usage.list_of_chain(org_id, root_id, most + 1)
        costs = {(each.workspace_id, each.key): each.cost_micros for each in records if each.cost_micros is not None}
        turns, has_all_turns = await self._list_turns(spans, {each.id for each in messages}, costs)
        return TraceDetail(
            root_id=root_id,
            messages=[self._message(each) for each in messages[:most]],
            delegations=await self._trees.build_trees(delegations[:most]),
            approvals=[self._approval(each) for each in approvals[:most]],
            turns=turns,
            usage=_sum_usage(turns),
            cost_micros=sum(costs.values()) if costs else None,
            currency=(await self._usage.get_prices(org_id)).currency,
            is_complete=has_all_turns and max(len(messages), len(delegations), len(approvals), len(records)) <= most,
        )

    async def _list_approvals(self, spans: dict[str, _Participation], most: int) -> list[Approval]:
        found: list[Approval] = []
        for workspace_id, span in spans.items():
            until = self._clock.now() if span.until is None else span.until
            found += await self._approvals.requested_between(workspace_id, span.since, until, most + 1)
        return sorted(found, key=lambda each: (each.created_at, each.id))

    async def _list_turns(
        self, spans: dict[str, _Participation], message_ids: set[str], costs: Costs
    ) -> tuple[list[TraceTurn], bool]:
        """Return the turns that messages of the trace began, in order of time, and whether these are all.

        Only the next `page_rows` rows of a workspace's log are searched: bridges log a turn when it ends. Programs of
        `molecule agent run` name the message in the key of its turn; turns of sub-agents follow from those."""
        found: list[TraceTurn] = []
        begun: list[TracedTurn] = []
        most, is_complete = self._limits.page_rows, True
        for workspace_id, span in spans.items():
            if span.seq is not None:
                turns = await self._messages.list_turns(workspace_id, span.seq, span.seq + most)
                found += [
                    self._logged_turn(workspace_id, each, costs) for each in turns if each.activity_id in message_ids
                ]
            keyed, has_all = await self._threads.list_keyed_turns(workspace_id, span.since, most)
            is_complete = is_complete and has_all
            begun += [each for each in keyed if each.key in message_ids]
        caused, has_all = await self._threads.list_turns_caused_by(begun, most)
        found += [self._thread_turn(each, costs) for each in (*begun, *caused)]
        is_complete = is_complete and has_all
        return sorted(found, key=lambda each: each.at), is_complete

    def _message(self, message: TracedMessage) -> TraceMessage:
        return TraceMessage(
            no=message.chain_no,
            activity_id=message.id,
            workspace_id=message.workspace_id,
            workspace_name=self._name_of(message.workspace_id),
            source_id=message.source_id,
            source_name=self._name_of(message.source_id),
            user_id=message.user_id,
            kind=message.kind,
            method=message.method,
            summary=message.summary,
            hop=message.hop,
            cause_id=message.cause_id,
            at=to_rfc3339(message.created_at),
            state=message.state,
            closed_at=to_optional_rfc3339(message.closed_at),
        )

    def _approval(self, approval: Approval) -> TraceApproval:
        return TraceApproval(
            approval_id=approval.id,
            workspace_id=approval.workspace_id,
            workspace_name=self._name_of(approval.workspace_id) or approval.requester_name,
            action=approval.action,
            status=approval.status,
            task_id=approval.task_id,
            created_at=to_rfc3339(approval.created_at),
            settled_at=to_optional_rfc3339(approval.settled_at),
        )

    def _logged_turn(self, workspace_id: str, turn: TurnLog, costs: Costs) -> TraceTurn:
        return TraceTurn(
            activity_id=turn.activity_id,
            thread_id=None,
            turn_id=None,
            parent_turn_id=None,
            agent=None,
            workspace_id=workspace_id,
            workspace_name=self._name_of(workspace_id),
            at=to_rfc3339(turn.logged_at),
            seconds=turn.seconds,
            usage=turn.usage,
            tools=turn.tools,
            cost_micros=costs.get((workspace_id, turn.usage_key)),
        )

    def _thread_turn(self, turn: TracedTurn, costs: Costs) -> TraceTurn:
        return TraceTurn(
            activity_id=turn.key,
            thread_id=turn.thread_id,
            turn_id=turn.turn_id,
            parent_turn_id=turn.parent_turn_id,
            agent=None if turn.path == ROOT_PATH else turn.path.removeprefix(f"{ROOT_PATH}/"),
            workspace_id=turn.workspace_id,
            workspace_name=self._name_of(turn.workspace_id),
            at=to_rfc3339(turn.ended_at or turn.accepted_at),
            seconds=None if turn.ended_at is None else (turn.ended_at - turn.accepted_at) / SECOND,
            usage=turn.tokens,
            tools=turn.tools,
            cost_micros=costs.get((turn.workspace_id, turn.turn_id)),
        )

    def _name_of(self, workspace_id: str | None) -> str | None:
        workspace = None if workspace_id is None else self._org.workspace(workspace_id)
        return None if workspace is None else workspace.name


def _spans(messages: Sequence[TracedMessage], delegations: Sequence[Delegation]) -> dict[str, _Participation]:
    """Return when each workspace took part: from the first message or delegation that it received to the last event."""
    spans: dict[str, _Participation] = {}
    for message in messages:
        if message.source_id != message.workspace_id:  # what a workspace sends to people is in its own log
            until = None if message.state == _OPEN else max(message.created_at, message.closed_at or 0)
            _extend(spans, message.workspace_id, _Participation(message.created_at, until, message.seq))
    for row in delegations:
        _extend(spans, row.target_id, _Participation(row.created_at, row.settled_at, row.message_seq))
    return spans


def _extend(spans: dict[str, _Participation], workspace_id: str, more: _Participation) -> None:
    known = spans.setdefault(workspace_id, more)
    if known.until is not None:
        known.until = None if more.until is None else max(known.until, more.until)


def _sum_usage(turns: Iterable[TraceTurn]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for turn in turns:
        for name, value in turn.usage.items():
            sums[name] = sums.get(name, 0) + value
    return sums
