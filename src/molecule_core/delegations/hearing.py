"""What happens to messages that carry delegations is heard here, in the transaction in which it happens.

One method for each fact; `server.py` registers them, docs/order.md prints them. Above: server.py. Below: steps, rules.
"""

from collections.abc import Generator
from typing import Any

from msgspec.structs import replace

from molecule_core.delegations import rules
from molecule_core.delegations.model import DELEGATION, Delegation, Fact, Reason
from molecule_core.delegations.steps import Ends, joined, living, moved, noted, rows_of, saved
from molecule_core.ground.limits import Limits
from molecule_core.messages.facts import (
    Accepted,
    Answered,
    Delayed,
    GivenUp,
    Handed,
    Progressed,
    Returned,
    Unsure,
)
from molecule_core.org.model import SeatsGone
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Followed, Read, Several, Step
from molecule_core.store.timers import TIMERS, timer, timer_at_latest


class Hearing:
    """Follows facts of messages, and of seats that are removed."""

    def __init__(self, org: OrgReader, ends: Ends, limits: Limits) -> None:
        self._org = org
        self._results = ends.results
        self._ends = ends
        self._limits = limits

    def handed(self, org_id: str, fact: Handed) -> Generator[Step, Any, Followed]:
        """Messages were handed over: an agent took them, or the server begins to send them."""
        attempts = dict(fact.messages)
        rows = yield from rows_of(org_id, list(attempts))
        happened = Fact.SENT if fact.pushed else Fact.CLAIMED
        return _together([saved(moved(row, happened, fact.at, attempt=attempts[row.id])) for row in rows])

    def answered(self, org_id: str, fact: Answered) -> Generator[Step, Any, Followed]:
        """A message is answered or declined. What comes after the end is kept and noted, and changes nothing."""
        rows = yield from rows_of(org_id, [fact.delegation_id])
        happened = Fact.DECLINED if fact.declined else Fact.ANSWERED
        for row in rows:
            for deed in rules.decide(row.stands, happened):
                if deed.late:
                    return (yield from self._late(row, happened, fact))
                end = yield from self._ends.settled(row, happened, deed, fact.answer, fact.via, fact.at)
                target = living(self._org, row.target_id)
                if fact.handled or target is None or row.message_seq is None:
                    return end
                handled = yield from self._results.handled(target, row.message_seq)
                return joined(end, [handled])
        return Followed()

    def _late(self, row: Delegation, happened: Fact, fact: Answered) -> Generator[Step, Any, Followed]:
        noting = Followed([noted(row, happened, fact.at, late=True, detail=_beginning(fact.answer.text))])
        target = living(self._org, row.target_id)
        if target is None:
            return noting
        kept = yield from self._results.late_row(target, row.source_id, row.id, fact.answer)
        return joined(noting, [kept.facts])

    # -- on the way ----------------------------------------------------------------------------------------------------

    def returned(self, org_id: str, fact: Returned) -> Generator[Step, Any, Followed]:
        """Messages were given back."""
        rows = yield from rows_of(org_id, list(fact.delegation_ids))
        return _together([saved(moved(row, Fact.RETURNED, fact.at)) for row in rows])

    def delayed(self, org_id: str, fact: Delayed) -> Generator[Step, Any, Followed]:
        """A push is tried once more, or waits for an agent that has no time."""
        happened = Fact.BUSY if fact.busy else Fact.RETRY
        return (yield from self._moved(org_id, fact.delegation_id, happened, fact.at, fact.error))

    def unsure(self, org_id: str, fact: Unsure) -> Generator[Step, Any, Followed]:
        """A message was sent and no answer came: for so long it may still come."""
        return (yield from self._moved(org_id, fact.delegation_id, Fact.UNSURE, fact.at, fact.error))

    def accepted(self, org_id: str, fact: Accepted) -> Generator[Step, Any, Followed]:
        """An agent has a pushed message in hand."""
        return (yield from self._moved(org_id, fact.delegation_id, Fact.ACCEPTED, fact.at))

    def progressed(self, org_id: str, fact: Progressed) -> Generator[Step, Any, Followed]:
        """An agent says that it is at work. Said again it is a sign of life, and nothing else."""
        followed = yield from self._moved(org_id, fact.delegation_id, Fact.PROGRESS, fact.at)
        if followed.writes:
            return followed
        rows = yield from rows_of(org_id, [fact.delegation_id])
        return Followed([("save_delegation", replace(row, life_at=fact.at)) for row in rows])

    def _moved(
        self, org_id: str, delegation_id: str, happened: Fact, at: int, detail: str | None = None
    ) -> Generator[Step, Any, Followed]:
        rows = yield from rows_of(org_id, [delegation_id])
        changes = [moved(row, happened, at, detail=detail) for row in rows]
        due = [rules.due_of(change.row, at, self._limits) for change in changes]
        followed = _together([saved(change) for change in changes])
        if happened is not Fact.UNSURE or not followed.events:
            return followed
        timers = [timer_at_latest(DELEGATION, change.row.key, each) for change, each in zip(changes, due, strict=True)]
        return followed._replace(writes=[*followed.writes, *timers], rings=(*followed.rings, TIMERS))

    # -- ends ----------------------------------------------------------------------------------------------------------

    def given_up(self, org_id: str, fact: GivenUp) -> Generator[Step, Any, Followed]:
        """A message will not be delivered, or its agent has failed at it."""
        rows = yield from rows_of(org_id, [fact.delegation_id])
        reason, words = Reason(fact.code), fact.detail or fact.code
        for row in rows:
            for deed in rules.decide(row.stands, Fact.GAVE_UP, reason=reason):
                if deed.late:
                    return Followed([noted(row, Fact.GAVE_UP, fact.at, late=True, detail=_beginning(words))])
                answer = self._results.said(row.target_id, words, row.context_id)
                end = yield from self._ends.settled(row, Fact.GAVE_UP, deed, answer, "push", fact.at)
                target = living(self._org, row.target_id)
                # An error of the agent itself has ended what it owes.
                if target is None or row.message_seq is None or reason is Reason.AGENT_ERROR:
                    return end
                return joined(end, [(yield from self._results.lost(target, row.message_seq, reason.value))])
        return Followed()

    def seats_gone(self, org_id: str, fact: SeatsGone) -> Generator[Step, Any, Followed]:
        """Seats are removed: all that they have given or been given is looked at, and ends by that."""
        found = yield Several(
            [Read("delegations_of_seat", {"org_id": org_id, "workspace_id": each}) for each in fact.ids]
        )
        ids = dict.fromkeys(row[0] for rows in found for row in rows)
        return Followed([timer(DELEGATION, f"{org_id}/{each}", fact.at) for each in ids], (), (TIMERS,) if ids else ())


def _together(every: list[Followed]) -> Followed:
    """What several delegations add to one command."""
    writes = [write for each in every for write in each.writes]
    events = [event for each in every for event in each.events]
    return Followed(writes, events, tuple(dict.fromkeys(ring for each in every for ring in each.rings)))


def _beginning(text: str) -> str:
    return rules.cut(text, rules.LIST_PREVIEW)
