"""Trees of workspaces that ask for leave, on a whole server in this process: what `prove approvals` starts.

Whoever may decide does, and so does everybody else; what the server answers is held against a plain account of each
approval (ladder.py). Time stands still while they act; between their rounds it moves, and trees change.
"""

import asyncio
from collections import Counter
from random import Random
from typing import Any

from msgspec.structs import replace

from molecule_core.store.journal import org_key
from molecule_core.store.wakeups import Poll
from proofs.approvals.groves import (
    ACTIONS,
    Asked,
    Item,
    Tree,
    body_of,
    found,
    hops_of,
    meant_of,
    some_details,
    stand_of,
)
from proofs.harness.children import as_a_child
from proofs.harness.office import LIMITS, Office
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Figure, Verdict
from testing.clocks import START, FakeClock
from testing.machines.approval_model import LEVEL_SECONDS, USE_SECONDS, WHOLE_SECONDS, Act, Approval, hash_of

# Nobody has to be heard again: who is here stays so.
_LIMITS = replace(LIMITS, silence_seconds=10**9)
_SIDE_BY_SIDE = 100
_ROUNDS, _ACTS = 5, 4
_MOST_NOTES = 8
_STALL_SECONDS, _CONTROL_SECONDS = 60.0, 1.5
_SECOND = 1_000_000
_DECISIONS = ("approve", "approve", "deny", "escalate", "more_info")


class Askers:
    """One run over all trees."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._clock = FakeClock()
        self._office = Office(setting, self._clock, _LIMITS)
        self._patience = _STALL_SECONDS if setting.package is None else _CONTROL_SECONDS
        self.counts: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.notes: list[str] = []
        self.deepest = 0

    @property
    def _now(self) -> int:
        return (self._clock.at - START) // _SECOND

    async def run(self) -> Verdict:
        """All trees, so many at once; each of these groups ends behind a restart, by its clock."""
        await self._office.server.open()
        for first in range(0, self._setting.size, _SIDE_BY_SIDE):
            await self._play(range(first, min(first + _SIDE_BY_SIDE, self._setting.size)))
        await self._office.server.close()
        zeros = ("taken wrongly", "refused wrongly", "used twice", "decided twice", "open for ever")
        more = ("requester not told", "hops unlike what happened", "stands otherwise", "a key is not one approval")
        shown = ("trees", "requests", "acts", "taken", "taken again", "used", "at once", "moves", "expired")
        figures: dict[str, Figure] = {name: self.counts[name] for name in shown}
        refused = dict(sorted(self.refused.items()))
        figures |= {"refused": sum(refused.values()), **{f"of them {name}": many for name, many in refused.items()}}
        figures |= {"deepest": self.deepest, "hops": self.counts["hops"]}
        return Verdict(figures, {name: self.counts[name] for name in (*zeros, *more)}, self.notes)

    async def _play(self, numbers: range) -> None:
        trees = await found(self._office, self._setting, numbers)
        self.counts["trees"] += len(trees)
        self.deepest = max(self.deepest, *(tree.depth for tree in trees))
        for number in range(_ROUNDS):
            await asyncio.gather(*(self._act(tree) for tree in trees))
            await self._pass_time(trees, self._setting.dice("time", numbers[0], number))
        await self._office.server.close()
        self._office = Office(self._setting, self._clock, _LIMITS)
        await self._office.server.open()
        await self._at(trees, 2 * WHOLE_SECONDS)
        await asyncio.gather(*(self._act(tree, asks=False) for tree in trees))
        await self._at(trees, USE_SECONDS)
        await asyncio.gather(*(self._act(tree, asks=False) for tree in trees))
        await asyncio.gather(*(self._judge(tree) for tree in trees))

    # -- acts ----------------------------------------------------------------------------------------------------------

    async def _act(self, tree: Tree, *, asks: bool = True) -> None:
        for _ in range(_ACTS):
            if asks and len(tree.asked) < 3 and (not tree.asked or tree.dice.random() < 0.2):
                await self._ask(tree)
            each = tree.dice.choice(tree.asked)
            if not each.is_lost:
                await tree.dice.choice(self._ways(each.model))(each)

    def _ways(self, model: Approval) -> list[Any]:
        """What is done next: mostly what means something, and everything sometimes."""
        likely = {"info_requested": self._answer, "approved": self._use}.get(model.status, self._decide)
        every = [self._decide] * 5 + [self._use, self._answer, self._at_once, self._withdraw]
        return every + [likely] * 5

    async def _ask(self, tree: Tree) -> None:
        dice, seat = tree.dice, tree.seats[0]
        details, cost = some_details(dice), dice.choice((None, 5.0, 50.0))
        action, expires = dice.choice(ACTIONS), dice.choice((None, None, None, 60, 600, 2 * WHOLE_SECONDS))
        body: Item = {"action": action, "reason": "so", "details": details, "cost": cost}
        body |= {} if expires is None else {"expires_in": expires}
        key, path = f"k-{len(tree.asked)}", f"/workspaces/{seat.id}/approvals"
        model = Approval(seat, action, details, cost, self._now, expires or WHOLE_SECONDS)
        status, item = await self._office.ask(seat.token, "POST", path, body, key=key)
        if status != 201:
            raise RuntimeError(f"an approval cannot be asked for: {status} {item}")
        each = Asked(tree, item["approval_id"], model)
        tree.asked.append(each)
        self.counts["requests"] += 1
        self._compare(each, item)
        if dice.random() < 0.2:
            again = body if dice.random() < 0.5 else body | {"action": "another"}
            status, answer = await self._office.ask(seat.token, "POST", path, again, key=key)
            is_same = status == 200 and answer["approval_id"] == each.id
            if is_same != (again is body):
                self._fault("a key is not one approval", f"{status} {answer}")

    async def _decide(self, each: Asked) -> None:
        dice = each.tree.dice
        if each.said and dice.random() < 0.3:
            token, path_id, act = dice.choice(each.said)
            if dice.random() < 0.3:
                act = act._replace(decision=dice.choice(_DECISIONS), details=None)
        else:
            token, path_id, act = self._drawn(each)
        each.said.append((token, path_id, act))
        meant = each.model.takes(act)
        status, item = await self._say(each, token, path_id, act)
        await self._told(each, meant, status, item)
        if status < 400 and meant == "yes":
            each.model.does(act, self._now)
        if status < 400 and meant != "no":
            self._compare(each, item)

    def _drawn(self, each: Asked) -> tuple[str, str, Act]:
        """Anybody, who says anything, about what it has seen, or about what it has not."""
        tree, model, dice = each.tree, each.model, each.tree.dice
        role = dice.choice(
            ("holder", "holder", "former", "seat", "operator", "owner", "viewer", "foreign", "requester")
        )
        seats = {seat.id: seat for seat in tree.seats}
        seat = model.holder or dice.choice(tree.seats)
        if role == "former" and model.had:
            seat = seats[dice.choice(model.had)]
        elif role == "seat":
            seat = dice.choice(tree.seats)
        elif role == "requester":
            seat = model.seat
        if role in ("operator", "owner"):
            token, path_id = tree.people.tokens[role], model.seat.id
            who: tuple[str, str] | None = ("person", tree.people.ids[role])
        elif role in ("viewer", "foreign"):
            people = tree.people if role == "viewer" else tree.foreign
            token, path_id, who = people.tokens["viewer" if role == "viewer" else "owner"], model.seat.id, None
        else:
            token, who = seat.token, None if seat is model.seat else ("workspace", seat.id)
            is_parent = model.seat.parent is seat
            path_id = model.seat.id if is_parent and dice.random() < 0.3 else seat.id
        decision = dice.choice(_DECISIONS)
        if decision == "approve" and model.revision > 1 and dice.random() < 0.3:
            return token, path_id, Act(who, decision, None, None, None, None)
        revision = dice.choice((None, model.revision, model.revision, model.revision, model.revision - 1 or 9))
        hashed = dice.choice((None, model.hashed, model.hashed, hash_of(model.action, {"to": "nobody"})))
        details = some_details(dice) if decision == "approve" and dice.random() < 0.3 else None
        turn = dice.choice((None, None, model.holder.id if model.holder else None, *model.had[:1]))
        holder = turn if decision == "escalate" and who is not None and who[0] == "person" else None
        return token, path_id, Act(who, decision, revision, hashed, details, holder)

    async def _say(self, each: Asked, token: str, path_id: str, act: Act) -> tuple[int, Item]:
        body = body_of(act, each.tree.dice)
        return await self._office.ask(token, "POST", f"/workspaces/{path_id}/approvals/{each.id}/decide", body)

    async def _at_once(self, each: Asked) -> None:
        """Two decide otherwise at the same time: one of them does."""
        tree, model, people = each.tree, each.model, each.tree.people
        acts = [
            (
                people.tokens["owner"],
                model.seat.id,
                Act(("person", people.ids["owner"]), "approve", model.revision, None, None, None),
            ),
            (
                people.tokens["operator"],
                model.seat.id,
                Act(("person", people.ids["operator"]), "deny", None, None, None, None),
            ),
        ]
        if not model.is_open:
            return
        if model.holder is not None and model._is_above:
            acts[0] = (model.holder.token, model.holder.id, acts[0][2]._replace(who=("workspace", model.holder.id)))
        tree.dice.shuffle(acts)
        found = await asyncio.gather(*(self._say(each, *act) for act in acts))
        self.counts["at once"] += 1
        self.counts["acts"] += 2
        won = [(act, item) for (_, _, act), (status, item) in zip(acts, found, strict=True) if status < 400]
        for status, item in found:
            if status >= 400:
                self.refused[item["code"]] += 1
        if len(won) != 1:
            each.is_lost = True
            self._fault("decided twice", f"{[status for status, _ in found]} {found}")
            return
        self.counts["taken"] += 1
        each.said += acts
        model.does(won[0][0], self._now)
        self._compare(each, won[0][1])

    async def _use(self, each: Asked) -> None:
        """The requester, or somebody else, acts: with what was approved, or with something else."""
        tree, model, dice = each.tree, each.model, each.tree.dice
        seat = dice.choice((model.seat, model.seat, model.seat, dice.choice(tree.seats)))
        hashed = dice.choice((model.hashed, model.hashed, hash_of(model.action, {"to": "nobody"})))
        is_its = seat is model.seat
        path_id = dice.choice((seat.id, model.seat.id))
        can, was_used = is_its and model.can_be_used(hashed, self._now), model.used_at >= 0
        path = f"/workspaces/{path_id}/approvals/{each.id}/use"
        status, item = await self._office.ask(seat.token, "POST", path, {"action_hash": hashed})
        if status < 400 and was_used and is_its:
            self._fault("used twice", f"{item}")
            each.is_lost = True
            return
        await self._told(each, "yes" if can else "no", status, item)
        if can and status < 400:
            self.counts["used"] += 1
            model.use(self._now)

    async def _answer(self, each: Asked) -> None:
        """The requester says more: asked or not."""
        model, dice = each.model, each.tree.dice
        details = some_details(dice) if dice.random() < 0.5 else None
        meant = "yes" if model.status == "info_requested" else "no"
        body = {"text": "so"} | ({} if details is None else {"details": details})
        await self._own(each, "answer", body, meant, lambda: model.answers(details, self._now))

    async def _withdraw(self, each: Asked) -> None:
        """The requester, or a person, takes it back."""
        model = each.model
        meant = "yes" if model.is_open else "again" if model.status == "withdrawn" else "no"
        is_person, people = each.tree.dice.random() < 0.3, each.tree.people
        by = ("person", people.ids["operator"]) if is_person else ("workspace", model.seat.id)
        token = people.tokens["operator"] if is_person else None
        await self._own(each, "withdraw", {}, meant, lambda: model.withdraw(by, self._now), token)

    async def _own(self, each: Asked, verb: str, body: Item, meant: str, then: Any, token: str | None = None) -> None:
        seat = each.model.seat
        path = f"/workspaces/{seat.id}/approvals/{each.id}/{verb}"
        status, item = await self._office.ask(token or seat.token, "POST", path, body)
        await self._told(each, meant, status, item)
        if meant == "yes" and status < 400:
            then()
        if meant != "no" and status < 400:
            self._compare(each, item)

    async def _told(self, each: Asked, meant: str, status: int, item: Item) -> None:
        """What somebody was answered, against what it should have been."""
        self.counts["acts"] += 1
        if status >= 400:
            self.refused[item["code"]] += 1
        elif meant != "no":
            self.counts["taken" if meant == "yes" else "taken again"] += 1
        if (status < 400) != (meant != "no") or status >= 500:
            what = "taken wrongly" if status < 400 else "refused wrongly"
            self._fault(
                what, f"tree {each.tree.number}: {status} {str(item)[:200]}; {each.said[-1:]}; {each.model.hops}"
            )
            each.is_lost = True

    # -- time, and trees that change -----------------------------------------------------------------------------------

    async def _pass_time(self, trees: list[Tree], dice: Random) -> None:
        for tree in trees:
            if tree.depth > 2 and tree.dice.random() < 0.2:
                await self._move(tree)
        await self._at(trees, dice.choice((0, 1, 30, LEVEL_SECONDS - 1, LEVEL_SECONDS, LEVEL_SECONDS, 600)))

    async def _move(self, tree: Tree) -> None:
        """The requester stands below somebody else from now on; what it has asked for is refused to who is not above it
        any more, from this moment on."""
        seat = tree.seats[0]
        other = tree.dice.choice([each for each in tree.seats[1:] if seat not in each.above()])
        if other is seat.parent:
            return
        path = f"/workspaces/{seat.id}"
        await self._office.tell(tree.people.tokens["operator"], "PATCH", path, {"parent_id": other.id})
        seat.parent = other
        self.counts["moves"] += 1
        for each in tree.asked:
            held = each.model.holder
            if not each.is_lost and held is not None and held not in seat.above() and each.model.status == "pending":
                act = Act(("workspace", held.id), "approve", each.model.revision, None, None, None)
                each.said.append((held.token, held.id, act))
                status, item = await self._say(each, held.token, held.id, act)
                await self._told(each, "no", status, item)
        for each in tree.asked:
            each.model.looked_after(self._now)
        await self._clock.advance(0)
        await self._settled(tree.asked)  # what has moved moves on before the time does

    async def _at(self, trees: list[Tree], seconds: int) -> None:
        """So much later, when all that falls due has happened."""
        every = [each for tree in trees for each in tree.asked if not each.is_lost]
        await self._clock.advance(seconds)
        changed = list[Asked]()
        for each in every:
            before = len(each.model.hops)
            each.model.looked_after(self._now)
            if len(each.model.hops) > before:
                changed.append(each)
                self.counts["expired"] += each.model.status == "expired"
        await self._settled(changed)

    async def _settled(self, every: list[Asked]) -> None:
        """Waits until all stand as they should, or for so long that they never will."""

        async def one(each: Asked) -> None:
            async def look() -> Poll[bool]:
                return Poll(self._same(each, await self._item(each)) or None)

            await self._office.server.wakeups.wait_until(org_key(each.tree.people.org_id), look, WHOLE_SECONDS)

        waiting = {asyncio.create_task(one(each)): each for each in every if not each.is_lost}
        if not waiting:
            return
        done, late = await asyncio.wait(waiting, timeout=self._patience)
        for task in done:
            task.result()
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        for task in late:
            each = waiting[task]
            item = await self._item(each)
            is_open = item["status"] in ("pending", "info_requested")
            if is_open and not each.model.is_open:
                each.is_lost = True
                self._fault("open for ever", f"{item['status']}, not {each.model.status}: {item['path'][-2:]}")
            else:
                self._compare(each, item)

    # -- the judgement -------------------------------------------------------------------------------------------------

    async def _item(self, each: Asked) -> Item:
        path = f"/workspaces/{each.model.seat.id}/approvals/{each.id}"
        item: Item = await self._office.tell(each.tree.people.tokens["viewer"], "GET", path)
        return item

    def _same(self, each: Asked, item: Item) -> bool:
        return hops_of(item) == each.model.hops and stand_of(item) == meant_of(each.model)

    def _compare(self, each: Asked, item: Item) -> None:
        """Counts once what is not as it should be."""
        if each.is_lost or self._same(each, item):
            return
        each.is_lost = True
        if hops_of(item) != each.model.hops:
            self._fault("hops unlike what happened", f"{hops_of(item)[-3:]}, not {each.model.hops[-3:]}")
        else:
            self._fault("stands otherwise", f"{stand_of(item)}, not {meant_of(each.model)}")

    async def _judge(self, tree: Tree) -> None:
        """In the end nothing is open, all hops are those that happened, and the requester was told each end once."""
        seat = tree.seats[0]
        path, rows = f"/workspaces/{seat.id}/activity", list[Item]()
        while page := await self._office.tell(seat.token, "GET", path, claim=WHOLE_SECONDS, wait=0, limit=100):
            rows += page
        told = Counter(
            row["id"].partition(".")[0]
            for row in rows
            if (row["kind"], row["intent"]) == ("approval_decision", "inform")
        )
        for each in tree.asked:
            self.counts["hops"] += len(each.model.hops)
            if each.is_lost:
                continue
            item = await self._item(each)
            self._compare(each, item)
            if item["status"] in ("pending", "info_requested"):
                self._fault("open for ever", f"{item['status']} {item['path'][-2:]}")
            if told[each.id] != each.model.letters:
                self._fault(
                    "requester not told", f"{told[each.id]} letters, not {each.model.letters}: {each.model.hops}"
                )

    def _fault(self, what: str, note: str) -> None:
        self.counts[what] += 1
        if len(self.notes) < _MOST_NOTES:
            self.notes.append(f"{what}: {note[:900]}")


async def run(setting: Setting) -> Verdict:
    """One run over `setting.size` trees."""
    return await Askers(setting).run()


if __name__ == "__main__":
    as_a_child(run)
