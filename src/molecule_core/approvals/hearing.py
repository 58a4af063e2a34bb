"""What happens to messages about approvals, and to seats, is heard here, in the transaction in which it happens.

One method for each fact; `server.py` registers them, docs/order.md prints them. Above: server.py. Below: steps, rules.
"""

from collections.abc import Generator
from typing import Any

from molecule_core.approvals import rules
from molecule_core.approvals.model import APPROVAL, Fact, Kind
from molecule_core.approvals.steps import Steps, row_of
from molecule_core.ground.limits import Limits
from molecule_core.ground.text import shorten
from molecule_core.messages.asking import approval_of
from molecule_core.messages.facts import Explained
from molecule_core.org.model import SeatsGone, SeatsMoved
from molecule_core.store.database import Followed, Read, Several, Step
from molecule_core.store.timers import TIMERS, timer
from molecule_core.wire.approvals import Party


class Hearing:
    """Follows facts of messages, and of seats that are removed or moved."""

    def __init__(self, steps: Steps, limits: Limits) -> None:
        self._steps = steps
        self._limits = limits

    def explained(self, org_id: str, fact: Explained) -> Generator[Step, Any, Followed]:
        """The requester has answered a question: it goes back to who asked, unless its time is over. What comes too
        late changes nothing, even if another question is open by then. It reaches far: who is to decide is known once
        it is read."""
        row = yield from row_of(org_id, approval_of(fact.message_id))
        if row is None or rules.TABLE[Fact.ANSWER, row.status] is None or row.question_seq != fact.seq:
            return Followed()
        course = self._steps.course(row)
        # The command that answers has closed the question already.
        course.put(question_seq=None)
        if rules.is_over(row, course.now):
            yield from self._steps.expire(course)
            return course.followed(self._steps.counted)
        by = Party(Kind.WORKSPACE.value, row.workspace_id, row.requester_name)
        text = shorten(fact.text, self._limits.approval_text_length)
        yield from self._steps.answered(course, by, text, None)
        return course.followed(self._steps.counted)

    def seats_gone(self, org_id: str, fact: SeatsGone) -> Generator[Step, Any, Followed]:
        """Seats are removed: all that they have asked for or are to decide is looked at, and moves on by that."""
        return (yield from self._looked_at(org_id, fact.ids, fact.at))

    def seats_moved(self, org_id: str, fact: SeatsMoved) -> Generator[Step, Any, Followed]:
        """Seats have others above them: what they have asked for is theirs to decide from now on."""
        return (yield from self._looked_at(org_id, fact.ids, fact.at))

    def _looked_at(self, org_id: str, seats: tuple[str, ...], at: int) -> Generator[Step, Any, Followed]:
        found = yield Several([Read("approvals_of_seat", {"org_id": org_id, "workspace_id": each}) for each in seats])
        ids = dict.fromkeys(row[0] for rows in found for row in rows)
        return Followed([timer(APPROVAL, f"{org_id}/{each}", at) for each in ids], (), (TIMERS,) if ids else ())
