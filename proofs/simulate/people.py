"""Whoever uses the server in a game: they speak, work, ask for leave and decide, and repeat what got no answer.

They know what any client may know: the public API. Below: the world. What they were answered stands in the book.
"""

from collections import Counter
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from msgspec import Struct

from molecule_core.common.clock import SECOND, to_rfc3339
from molecule_core.messages.obligations.reply_handles import make_handle
from proofs.simulate.company import Company, Seat
from proofs.simulate.loop import passing
from proofs.simulate.world import Cut, HungUp, Item, World

LEASE_SECONDS = 20
_WAITS = (0, 5, 60, 60, 60, 60)
LONG_SECONDS = 300
MOST_SPAWNED = 6
# What an alarm may be late: it rings at the next tenth of a second. On a slow machine more passes meanwhile.
_LATE_SECONDS, _LATE_WHERE_SLOW = 0.2, 30.0
# A message that came while somebody waited for it is in its hands by then, in microseconds.
_AT_ONCE = 1 * SECOND
_ROUNDING_SECONDS = 0.001
_MOST_TRIES = 200
_UNAVAILABLE = 503
_ACTIONS = ("mail.send", "file.write", "pay")


class Sent(Struct):
    """A message as its sender knows it. `receipt`: the activity that it became, where the sender was told; `is_heard`:
    it was told in the same call what came of it; `hung_up_at`: when it hung up and asked no more, else 0."""

    id: str
    sender: str
    number: int
    inbox: str
    receipt: str | None = None
    is_accepted: bool = False
    is_heard: bool = False
    hung_up_at: float = 0.0


class Book:
    """What was answered with 2xx, and nothing else."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.handed: Counter[tuple[str, int]] = Counter()
        self.handled: dict[str, float] = {}
        """Activity id -> when its ack was answered."""
        self.delegated: dict[str, str] = {}
        """Delegation -> who gave it (the id of the workspace)."""
        self.taken: set[str] = set()
        """Delegations whose end the giver took with an answer to a call."""
        self.ended: dict[str, int] = {}
        """Delegation -> when the end that its doer told was taken, by the wall clock."""
        self.asked: dict[str, str] = {}
        """Approval -> who asked."""
        self.used: Counter[str] = Counter()
        self.threads: list[str] = []
        self.said: dict[str, str] = {}
        """What was said to a thread, and to which."""
        self.mailed: list[tuple[str, str]] = []
        """(call, receiver) of each letter between threads that was taken."""
        self.room = MOST_SPAWNED
        """How many more agents the engines may spawn: without a bound they would not stop."""
        self.spawned: list[str] = []


class Person:
    """Somebody with a credential, who does not give up."""

    def __init__(self, world: World, company: Company, book: Book, dice: Random, token: str) -> None:
        self.world, self.company, self.book, self.dice = world, company, book, dice
        self._token = token

    async def insist(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
        """The answer to a call, however often it has to be made."""
        for _ in range(_MOST_TRIES):
            try:
                status, answer = await self.world.ask(self._token, method, path, body, **more)
            except Cut:
                await passing(self.dice.uniform(0.01, 1))
                continue
            if status != _UNAVAILABLE:
                return status, answer
            self.world.counts["answered 503"] += 1
            await passing(self.dice.uniform(0.1, 2))
        self.world.fault("calls that never got an answer", f"{method} {path}")
        return 0, {"code": "none"}

    def refused(self, what: str, answer: Any, *expected: str) -> None:
        """A refusal; one of those expected is none."""
        code = answer.get("code", "") if isinstance(answer, dict) else ""
        if code in expected:
            self.world.counts[f"refused {code}"] += 1
        elif code != "none":
            self.world.fault("refused without reason", f"{what}: {answer}")

    async def pause(self, most: float) -> None:
        """Some time, often none at all."""
        await passing(self.dice.choice((0.0, self.dice.uniform(0, most))))

    # -- speaking ------------------------------------------------------------------------------------------------------

    async def speak(self, name: str, inboxes: list[Seat], count: int) -> None:
        """One message after the other, each until it is accepted; now and then one comes twice."""
        for number in range(count):
            await self.pause(20)
            seat = self.dice.choice(inboxes)
            sent = Sent(f"{name}-{number}", name, number, seat.id)
            self.book.sent.append(sent)
            if self.dice.random() < 0.1 and not await self._put_in_a_hurry(sent):
                continue
            await self._put(sent)
            if self.dice.random() < 0.1:
                await self._put(sent)

    async def _put_in_a_hurry(self, sent: Sent) -> bool:
        """The same once, by somebody who soon hangs up; whether it is to be said again."""
        path, body = self._said(sent)
        try:
            self._heard(sent, *await self.world.ask(self._token, "POST", path, body, patience=self.dice.uniform(0, 4)))
        except HungUp:
            sent.hung_up_at = self.world.now
            return False
        except Cut:
            pass
        return True

    async def _put(self, sent: Sent) -> None:
        path, body = self._said(sent)
        self._heard(sent, *await self.insist("POST", path, body))

    def _said(self, sent: Sent) -> tuple[str, Item]:
        message = {"role": "user", "messageId": sent.id, "parts": [{"kind": "text", "text": f"say {sent.id}"}]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
        return f"/workspaces/{sent.inbox}/a2a", body

    def _heard(self, sent: Sent, status: int, answer: Any) -> None:
        if status == _UNAVAILABLE:
            return
        if status >= 400:
            self.refused("send", answer, "not_taken", "chain_frozen", "ambiguous_reply")
            sent.is_heard |= answer.get("code") == "not_taken"
            return
        if status:
            sent.is_accepted = True
            receipt = answer.get("activity_id")
            sent.is_heard |= receipt is None
            if sent.receipt is not None and receipt is not None and receipt != sent.receipt:
                self.world.fault("two receipts", f"{sent.id}: {sent.receipt}, then {receipt}")
            sent.receipt = receipt or sent.receipt

    # -- deciding ------------------------------------------------------------------------------------------------------

    async def decide(self, approval_id: str, workspace_id: str, revision: int | None = None) -> None:
        """Says something about an approval: yes, no, ask above, or what is it for?"""
        body = {"decision": self.dice.choice(("approve", "approve", "deny", "escalate", "more_info")), "note": "so"}
        if revision is not None:
            body["revision"] = revision  # type: ignore[assignment]
        status, answer = await self.insist("POST", f"/workspaces/{workspace_id}/approvals/{approval_id}/decide", body)
        if status >= 400:
            self.refused("decide", answer, *_DECIDED_ELSEWHERE)

    async def look_after(self, until: Callable[[], bool]) -> None:
        """A person decides now and then what waits for persons."""
        while not until():
            await passing(self.dice.uniform(20, 60))
            status, page = await self.insist("GET", "/approvals/pending")
            for item in page["approvals"] if status == 200 else ():
                if self.dice.random() < 0.4:
                    await self.decide(item["approval_id"], item["workspace_id"], item["revision"])
                elif self.dice.random() < 0.1:
                    await self._withdraw(item["approval_id"], item["workspace_id"])

    async def _withdraw(self, approval_id: str, workspace_id: str) -> None:
        path = f"/workspaces/{workspace_id}/approvals/{approval_id}/withdraw"
        status, answer = await self.insist("POST", path, {})
        if status >= 400:
            self.refused("withdraw", answer, *_DECIDED_ELSEWHERE)


_DECIDED_ELSEWHERE = (
    "already_decided",
    "approval_ended",
    "approval_moved_on",
    "approval_changed",
    "info_requested",
    "nobody_above",
)


class Agent(Person):
    """The agent of a seat that fetches its mail."""

    def __init__(self, world: World, company: Company, book: Book, dice: Random, seat: Seat) -> None:
        super().__init__(world, company, book, dice, seat.token)
        self.seat = seat
        self._own = f"/workspaces/{seat.id}"
        self.is_idle: Callable[[], bool] = lambda: False
        """Whether nobody begins anything new."""
        self._names = 0

    def _name(self, what: str) -> str:
        """What it calls the next thing that it wants."""
        self._names += 1
        return f"{what}-{self.seat.number}-{self._names}"

    async def arrive(self) -> None:
        """It says that it is there."""
        await self.insist("POST", "/registry/heartbeat", {"workspace_id": self.seat.id})

    # -- mail ----------------------------------------------------------------------------------------------------------

    async def work(self, until: Callable[[], bool]) -> None:
        """Claims what comes, acts on it, acknowledges it."""
        while not until():
            for row in await self._claim():
                await self._handle(row)

    async def _claim(self) -> list[Item]:
        wait = LONG_SECONDS if self.is_idle() else self.dice.choice(_WAITS)
        began, lives = self.world.now, self.world.counts["lives"]
        began_at = self.world.clock.now()
        wish: Item = {"claim": LEASE_SECONDS, "wait": wait, "limit": 6}
        try:
            status, rows = await self.world.ask(self._token, "GET", f"{self._own}/activity", **wish)
        except Cut:
            await self.pause(2)
            return []
        if status >= 400:
            self.refused("claim", rows)
            return []
        took = self.world.now - began
        if self.world.counts["lives"] == lives:
            late = _LATE_WHERE_SLOW if self.world.chance.slowness else _LATE_SECONDS
            if not rows and took < wait - _ROUNDING_SECONDS:
                self.world.fault("waits that ended early", f"{took} of {wait} s")
            if took > wait + late:
                self.world.fault("waits past their limit", f"{took} of {wait} s")
        if not rows and took < 1:
            await passing(self.dice.uniform(1, 10))
        is_plain = not self.world.chance.jumps and not self.world.chance.slowness and not self.world.chance.lost_rings
        if is_plain and self.world.counts["lives"] == lives:
            fresh = [row for row in rows if row["attempt"] == 1 and row["created_at"] > to_rfc3339(began_at)]
            if fresh and to_rfc3339(self.world.clock.now() - _AT_ONCE) > fresh[0]["created_at"]:
                self.world.fault("woken late though no ring was lost", f"{fresh[0]['created_at']}")
        for row in rows:
            place = row["id"], row["attempt"]
            self.book.handed[place] += 1
            if self.book.handed[place] > 1:
                self.world.fault("handed twice under one attempt", str(place))
            # A reminder is for what was acknowledged and not answered.
            if self.book.handled.get(row["id"], began + 1) < began and not row.get("reminder"):
                self.world.fault("handed again after its ack", str(place))
        return list(rows)

    async def _handle(self, row: Item) -> None:
        await self.pause(3)
        lot = self.dice.random()
        if lot < 0.03:
            self.world.counts["messages forgotten"] += 1
            return
        if lot < 0.06:
            claims = {"claims": [{"activity_id": row["id"], "attempt": row["attempt"]}]}
            status, answer = await self.insist("POST", f"{self._own}/activity/release", claims)
            if status >= 400:
                self.refused("release", answer, "stale_attempt")
            return
        await self._acts().get(row["kind"], self._answer)(row)
        handled = {"activity_id": row["id"], "attempt": row["attempt"]}
        status, answer = await self.insist("POST", f"{self._own}/activity/ack", handled)
        if status >= 400:
            self.refused("ack", answer, "stale_attempt")
        else:
            self.book.handled[row["id"]] = self.world.now

    def _acts(self) -> dict[str, Callable[[Item], Coroutine[Any, Any, None]]]:
        return {"delegation": self._do, "approval_request": self._rule, "approval_decision": self._go_on}

    async def _answer(self, row: Item) -> None:
        """Mostly it answers; or it declines, speaks past the question, or says nothing."""
        if row["intent"] != "request":
            return
        lot = self.dice.random()
        handle = self._handle_of(row)
        if lot < 0.6:
            body: Item = {"handle": handle, "text": f"re {row['id']}"}
            if lot < 0.05:
                body |= {"progress": True, "messageId": self._name("progress")}
            status, answer = await self.insist("POST", f"{self._own}/reply", body)
        elif lot < 0.7:
            status, answer = await self.insist("POST", f"{self._own}/decline", {"handle": handle, "reason": "no"})
        elif lot < 0.8 and row["source_id"] is None:
            key = f"past-{row['id']}"
            status, answer = await self.insist("POST", f"{self._own}/notify", {"message": "by the way"}, key=key)
        else:
            return
        if status >= 400:
            self.refused("answer", answer, "stale_handle", "chain_frozen")

    def _handle_of(self, row: Item) -> str:
        source, thread = row["source_id"] or "", row["request_body"]["params"]["message"].get("contextId")
        return make_handle(self.company.org_id, source, self.seat.id, thread, row["id"], row["seq"])

    # -- delegations ---------------------------------------------------------------------------------------------------

    async def give(self, count: int) -> None:
        """Work for those below, and sometimes beside; some of it is waited for, some taken back, some begun again."""
        for _ in range(count):
            await self.pause(40)
            await self._give(None)

    async def _give(self, in_reply_to: str | None) -> None:
        others = self.seat.below or self.seat.peers
        target = self.company.seats[self.dice.choice(others)]
        key = self._name("work")
        body: Item = {"target_id": target.id, "task": f"task {key}"}
        body["deadline_seconds"] = self.dice.choice((5, 60, 120, 300))
        if in_reply_to is not None:
            body["in_reply_to"] = in_reply_to
        if self.dice.random() < 0.3:
            body["wait"] = self.dice.choice((1, 30))
        status, answer = await self.insist("POST", f"{self._own}/delegate", body, key=key)
        if status >= 400 or not status:
            self.refused("delegate", answer, "chain_frozen", "delegation_limit", "delegation_cycle")
            return
        id_ = answer["delegation_id"]
        self.book.delegated[id_] = self.seat.id
        self._took(id_, answer)
        lot, path = self.dice.random(), f"{self._own}/delegations/{id_}"
        if lot < 0.15:
            await self.pause(30)
            await self._take_back(path)
        elif lot < 0.4:
            status, answer = await self.insist("POST", f"{path}/wait", {"wait": self.dice.choice((5, 60))})
            self._took(id_, answer)
        elif lot < 0.5:
            await passing(self.dice.uniform(1, 60))
            status, answer = await self.insist("POST", f"{path}/retry", key=f"{key}-again")
            if status == 202:
                self.book.delegated[answer["delegation_id"]] = self.seat.id
            elif status >= 400:
                self.refused("retry", answer, "delegation_open", "delegation_limit", "chain_frozen")

    def _took(self, id_: str, answer: Item) -> None:
        if answer.get("settled") and answer.get("delivered") in ("here", "before"):
            self.book.taken.add(id_)

    async def _take_back(self, path: str) -> None:
        status, answer = await self.insist("POST", f"{path}/cancel", {})
        if status >= 400:
            self.refused("cancel", answer, "delegation_ended")

    async def _do(self, row: Item) -> None:
        """Work that it was given: done, declined, failed, given on, or left."""
        id_, lot = row["id"], self.dice.random()
        path = f"{self._own}/delegations/{id_}"
        if lot < 0.3:
            status, answer = await self.insist("POST", f"/delegations/{id_}/status", {"current_step": "at it"})
            if status >= 400:
                self.refused("status", answer)
        if lot < 0.2 and self.seat.below:
            await self._give(id_)
        lot = self.dice.random()
        if lot < 0.15:
            return
        if lot < 0.25:
            await passing(self.dice.uniform(0, 120))
        if lot < 0.75:
            parts = [{"kind": "text", "text": f"done {id_}" if lot < 0.6 else "not mine"}]
            about = {"delegation_id": id_} | ({} if lot < 0.6 else {"status": "rejected"})
            message = {"role": "agent", "messageId": f"end-{id_}", "parts": parts, "metadata": about}
            body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
            status, answer = await self.insist("POST", f"/workspaces/{row['source_id']}/a2a", body)
        else:
            how = {"status": "completed", "result": "done"} if lot < 0.9 else {"status": "failed", "error": "broken"}
            status, answer = await self.insist("POST", f"{path}/update", how)
        if status >= 400:
            self.refused("result", answer, "stale_handle", "chain_frozen")
        elif status:
            self.book.ended.setdefault(id_, self.world.clock.now())

    # -- approvals -----------------------------------------------------------------------------------------------------

    async def record(self, count: int) -> None:
        """Work that it gave by a way of its own: it only says so, and how it ended."""
        for _ in range(count):
            await self.pause(60)
            name = self._name("own")
            target = self.company.seats[self.dice.choice(self.seat.peers)]
            noted = {"target_id": target.id, "task": f"task {name}", "delegation_id": name}
            status, answer = await self.insist("POST", f"{self._own}/delegations/record", noted)
            if status >= 400 or not status:
                self.refused("record", answer)
                continue
            self.book.delegated[name] = self.seat.id
            for _ in range(self.dice.choice((0, 1, 2))):
                await self.pause(30)
                how = self.dice.choice(({"status": "completed", "result": "done"}, {"status": "failed", "error": "no"}))
                status, answer = await self.insist("POST", f"{self._own}/delegations/{name}/update", how)
                if status >= 400:
                    self.refused("update", answer)
            if self.dice.random() < 0.5:
                await self._take_back(f"{self._own}/delegations/{name}")

    async def ask_leave(self, count: int) -> None:
        """Asks for leave, and takes some of it back."""
        for _ in range(count):
            await self.pause(40)
            key = self._name("leave")
            body: Item = {"action": self.dice.choice(_ACTIONS), "reason": "so"}
            body["details"] = {"n": self.dice.randint(1, 3)}
            body["expires_in"] = self.dice.choice((30, 100, 300))
            status, item = await self.insist("POST", f"{self._own}/approvals", body, key=key)
            if status >= 400 or not status:
                self.refused("ask", item)
                continue
            self.book.asked[item["approval_id"]] = self.seat.id
            if self.dice.random() < 0.15:
                await self.pause(30)
                await self._withdraw(item["approval_id"], self.seat.id)

    async def _rule(self, row: Item) -> None:
        """A manager is asked."""
        if self.dice.random() < 0.7:
            await self.decide(_about(row)["approval_id"], self.seat.id, _about(row).get("revision"))

    async def _go_on(self, row: Item) -> None:
        """A decision has come, or a question."""
        about = _about(row)
        id_ = about["approval_id"]
        status, item = await self.insist("GET", f"{self._own}/approvals/{id_}")
        if status >= 400 or not status:
            self.refused("look", item)
            return
        path = f"{self._own}/approvals/{id_}"
        if item["status"] == "info_requested" and self.dice.random() < 0.8:
            more: Item = {"text": "so"} | ({"details": {"n": 9}} if self.dice.random() < 0.5 else {})
            status, answer = await self.insist("POST", f"{path}/answer", more)
            if status >= 400:
                self.refused("answer", answer, *_DECIDED_ELSEWHERE, "nothing_asked")
        elif item["status"] == "approved" and self.dice.random() < 0.8:
            for _ in range(self.dice.choice((1, 1, 2))):
                status, answer = await self.insist("POST", f"{path}/use", {"action_hash": item["action_hash"]})
                self.book.used[id_] += status == 200
                if status >= 400:
                    self.refused("use", answer, "approval_used", "approval_lapsed")


def _about(row: Item) -> Item:
    found: Item = row["request_body"]["params"]["message"]["metadata"]
    return found
