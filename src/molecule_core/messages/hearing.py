"""What happens to seats is heard here, in the transaction in which it happens.

`server.py` registers it, docs/order.md prints it. Above: server.py. Below: results, rules.
"""

from collections.abc import Generator
from typing import Any

from molecule_core.ground.limits import Limits
from molecule_core.messages import rules
from molecule_core.messages.model import Unheard
from molecule_core.messages.obligations import Facts
from molecule_core.messages.results import Results
from molecule_core.org.model import SeatsGone
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Followed, Peek, Read, Several, Step


class MessageHearing:
    """Follows facts of seats."""

    def __init__(self, org: OrgReader, results: Results, limits: Limits) -> None:
        self._org = org
        self._results = results
        self._limits = limits

    def seats_gone(self, org_id: str, fact: SeatsGone) -> Generator[Step, Any, Followed]:
        """Seats are removed: each other workspace that has asked one of them something, and has no answer, is told in
        one message that none comes any more. Persons see it; of delegations and approvals others tell."""
        most = self._limits.removal_named
        reads = [Read("asked_in_vain", {"workspace_id": each, "most": most}) for each in fact.ids]
        found = zip(fact.ids, (yield Several(reads)), strict=True)
        unheard = rules.unheard_by((Unheard(each, *row) for each, rows in found for row in rows), frozenset(fact.ids))
        # The numbers of all inboxes in one round: who stays may be hundreds of siblings.
        yield Several([Peek(name, each) for each in unheard for name in ("last_inbound", "last_seq")])
        told = list[Facts]()
        for source_id, asked in unheard.items():
            source = self._org.workspace(source_id)
            if source is None or source.removed:
                continue
            names = {each.target_id: self._org.living(each.target_id).name for each in asked}
            note = rules.no_answer(asked, names, self._limits)
            told.append((yield from self._results.told_off(source, note.target_id, note.text, note.about)).facts)
        writes = [write for each in told for write in each.writes]
        events = [event for each in told for event in each.events]
        return Followed(writes, events, tuple(ring for each in told for ring in each.rings))
