"""What ought to become of an approval: a plain account of one, written from the specification.

It imports nothing of the product and counts with names and whole seconds of its own.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

LEVEL_SECONDS, USE_SECONDS = 120, 86_400
WHOLE_SECONDS = 3_600
QUESTIONS = 10
_SERVER, _CLOCK = ("server", "server"), ("clock", "clock")
Who = tuple[str, str]
"""A kind and an id."""
Hop = tuple[str, str, str, str | None]
"""What has happened, who did it (kind and id), and who is asked by it, or was."""


class Grant(NamedTuple):
    """An action that a seat decides by itself; None: at any cost."""

    action: str
    cost_up_to: float | None


class Seat:
    """A manager or a requester, as the model knows it."""

    def __init__(self, id_: str, token: str, parent: "Seat | None") -> None:
        self.id, self.token, self.parent = id_, token, parent
        self.is_here = True
        self.grants: list[Grant] = []

    def above(self) -> "Iterator[Seat]":
        """All above it, the nearest first."""
        seat = self.parent
        while seat is not None:
            yield seat
            seat = seat.parent


class Act(NamedTuple):
    """Somebody decides. `who`: the kind and the id that its credential proves, or None for a credential that may
    decide nothing at all. `holder`: whose turn it was, as a person says it."""

    who: Who | None
    decision: str
    revision: int | None
    hashed: str | None
    details: dict[str, Any] | None
    holder: str | None


def hash_of(action: str, details: dict[str, Any]) -> str:
    """What a decision is bound to."""
    text = json.dumps({"action": action, "details": details}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


class Approval:
    """One approval as it should stand."""

    def __init__(
        self, seat: Seat, action: str, details: dict[str, Any], cost: float | None, now: int, expires: int
    ) -> None:
        self.seat, self.action, self.details, self.cost = seat, action, details, cost
        self.status, self.revision = "pending", 1
        self.expires_at = now + expires
        self.level_at: int | None = None
        self.holder: Seat | None = None
        self.had = list[str]()
        self.asker: Who | None = None
        self.passed = set[str]()
        """The agents that have passed it on."""
        self.passed_over = set[tuple[str, str]]()
        """The persons who have passed it on since it was answered last, and over whom."""
        self.decided: tuple[str, Who] | None = None
        self.settled_at = self.used_at = -1
        self.questions = 0
        self.letters = 0
        """So many messages about its end, or that it was taken back, the requester should have."""
        self.hops: list[Hop] = [("requested", "workspace", seat.id, None)]
        self._climb(now)
        if self.status == "approved":  # it has read it in the answer to its own request
            self.letters = 0

    @property
    def is_open(self) -> bool:
        """Whether it waits for somebody."""
        return self.status in ("pending", "info_requested")

    @property
    def hashed(self) -> str:
        """Of what is decided about."""
        return hash_of(self.action, self.details)

    # -- who is asked --------------------------------------------------------------------------------------------------

    def _hop(self, what: str, by: Who, holder: str | None = None) -> None:
        self.hops.append((what, *by, holder))

    def _authority(self, seat: Seat) -> str:
        found = "silent"
        for grant in seat.grants:
            if grant.action not in (self.action, "*"):
                continue
            if grant.cost_up_to is None or (self.cost is not None and self.cost <= grant.cost_up_to):
                return "covers"
            found = "exceeds"
        return found

    def _climb(self, now: int) -> None:
        """The nearest one above that can be asked and was not; else a person alone."""
        self.status, self.asker, self.holder, self.level_at = "pending", None, None, None
        for seat in self.seat.above():
            if seat.id in self.had:
                continue
            authority = self._authority(seat)
            if not seat.is_here or authority == "exceeds":
                self._hop("escalated", _SERVER, seat.id)
                continue
            if authority == "covers":
                self._end("approved", "approve", ("rule", seat.id), now)
            else:
                self._ask(seat, now)
            return
        self._hop("asked", _SERVER, "")

    def _ask(self, seat: Seat, now: int) -> None:
        self.holder, self.level_at = seat, now + LEVEL_SECONDS
        if seat.id not in self.had:
            self.had.append(seat.id)
        self._hop("asked", _SERVER, seat.id)

    def _end(self, status: str, decision: str | None, by: Who, now: int) -> None:
        self._hop(status, by)
        self.status, self.holder, self.level_at, self.asker = status, None, None, None
        self.decided = None if decision is None else (decision, by)
        self.settled_at = now
        self.letters += by != ("workspace", self.seat.id)

    @property
    def _is_above(self) -> bool:
        return any(seat is self.holder for seat in self.seat.above())

    # -- decisions -----------------------------------------------------------------------------------------------------

    def takes(self, act: Act) -> str:
        """`yes`, `again` (accepted, and nothing happens), or `no`."""
        if act.who is None or (act.who[0] == "workspace" and act.who[1] not in self.had):
            return "no"
        found = self._takes(act, act.who)
        if found == "again" and act.details not in (None, self.details):
            return "no"
        return "no" if found == "yes" and act.decision == "more_info" and self.questions >= QUESTIONS else found

    def _takes(self, act: Act, who: Who) -> str:
        if not self.is_open:
            return "again" if self.decided == (act.decision, who) else "no"
        if who[0] == "workspace" and (self.holder is None or who[1] != self.holder.id or not self._is_above):
            return "again" if act.decision == "escalate" and who[1] in self.passed else "no"
        if act.decision == "more_info" and self.asker is not None:
            return "again" if self.asker == who else "no"
        if act.decision == "approve" and act.revision is None and act.hashed is None and self.revision > 1:
            return "no"
        if act.revision not in (None, self.revision) or act.hashed not in (None, self.hashed):
            return "no"
        return self._passes(act, who) if act.decision == "escalate" else "yes"

    def _passes(self, act: Act, who: Who) -> str:
        """A person passes it on once, unless it names whose turn it is."""
        turn = None if self.holder is None else self.holder.id
        if who[0] == "person" and act.holder is None and any(each == who[1] for each, _ in self.passed_over):
            return "again"
        if who[0] == "person" and act.holder not in (None, turn):
            return "again" if (who[1], act.holder) in self.passed_over else "no"
        return "no" if turn is None else "yes"

    def does(self, act: Act, now: int) -> None:
        """It was taken."""
        who = act.who or _SERVER
        if act.decision == "escalate":
            turn = "" if self.holder is None else self.holder.id
            self._hop("escalated", who, turn)
            if who[0] == "person":
                self.passed_over.add((who[1], turn))
            self.passed.add(who[1])
            self._climb(now)
        elif act.decision == "more_info":
            self._hop("info_requested", who, self.seat.id)
            self.status, self.asker, self.level_at = "info_requested", who, None
            self.questions += 1
        else:
            if act.details is not None and act.details != self.details:
                self.details, self.revision = act.details, self.revision + 1
                self._hop("edited", who)
            self._end("approved" if act.decision == "approve" else "denied", act.decision, who, now)

    # -- the requester, and time ---------------------------------------------------------------------------------------

    def answers(self, details: dict[str, Any] | None, now: int) -> None:
        """The requester says more; it goes back to who was asked, if that one can be asked still."""
        self._hop("answered", ("workspace", self.seat.id), None if self.asker is None else self.asker[1])
        self.details = self.details if details is None else details
        self.revision += 1
        self.passed_over.clear()
        self.status, self.asker = "pending", None
        if self.holder is None:
            return
        if self.holder.is_here and self._is_above:
            self._ask(self.holder, now)
        else:
            self._climb(now)

    def withdraw(self, by: Who, now: int) -> None:
        """It is not wanted any more."""
        self._end("withdrawn", None, by, now)

    def can_be_used(self, hashed: str, now: int) -> bool:
        """Whether the requester may act now."""
        in_time = now < self.settled_at + USE_SECONDS
        return self.status == "approved" and hashed == self.hashed and self.used_at < 0 and in_time

    def use(self, now: int) -> None:
        """It acts."""
        self.used_at = now
        self._hop("used", ("workspace", self.seat.id))

    def runs_out(self, now: int) -> bool:
        """Whether its time is over before anything else happens to it: that is a no, whoever finds it out."""
        is_over = self.is_open and now >= self.expires_at
        if is_over:
            self._end("expired", "deny", _CLOCK, now)
        return is_over

    def looked_after(self, now: int) -> None:
        """The tree or the time is another one."""
        if not self.is_open or self.runs_out(now):
            return
        if self.status == "pending" and self.holder is not None:
            if not self._is_above:
                self._hop("escalated", _SERVER, self.holder.id)
                self._climb(now)
            elif self.level_at is not None and now >= self.level_at:
                self._hop("escalated", _CLOCK, self.holder.id)
                self._climb(now)
