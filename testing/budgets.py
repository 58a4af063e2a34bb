"""A server with budgets, whose agents a test plays by hand; and leases for wirings without budgets."""

from typing import Any, NamedTuple

from molecule_core.budgets.cache import BudgetCache
from molecule_core.budgets.leases import BudgetLeases
from molecule_core.client.api import ApiClient
from molecule_core.common.limits import Limits
from testing.clocks import FakeClock
from testing.push_agents import PushNetwork
from testing.running_server import Running, Seat
from testing.waits import bounded, eventually

Item = dict[str, Any]


def no_budgets(limits: Limits | None = None) -> BudgetLeases:
    """Leases of organisations that have no budgets."""
    limits = limits or Limits()
    return BudgetLeases(BudgetCache(limits), lambda workspace_id: (workspace_id,), limits=limits)


class BudgetWorld(NamedTuple):
    """A server, a person (an operator), the time, which the test moves, and where push agents are."""

    server: Running
    person: ApiClient
    clock: FakeClock
    net: PushNetwork
    org_id: str

    async def budget(self, target: Seat | str, limit: int, **more: Any) -> Item:
        """A new budget; of tokens, of one workspace and without periods unless told otherwise."""
        target_id = target if isinstance(target, str) else target.id
        body = {"scope": "workspace", "target_id": target_id, "unit": "tokens", "limit": limit, **more}
        created: Item = await self.person.post(f"/orgs/{self.org_id}/budgets", body)
        return created

    async def now(self, budget: Item) -> Item:
        """A budget as it is now."""
        found: Item = await self.person.get(f"/orgs/{self.org_id}/budgets/{budget['budget_id']}")
        return found

    async def change(self, budget: Item, limit: int) -> Item:
        """Give a budget another limit."""
        path = f"/orgs/{self.org_id}/budgets/{budget['budget_id']}"
        changed: Item = await self.person.call("PUT", path, body={"limit": limit})
        return changed

    async def set_lease(self, seat: Seat, tokens: int, money: int = 1) -> None:
        """What a turn of a workspace leases."""
        path = f"/workspaces/{seat.id}/turn-lease"
        await self.person.call("PUT", path, body={"tokens": tokens, "money": money})

    async def send(self, seat: Seat, text: str = "count", **more: Any) -> str:
        """A message of the person; its id."""
        message = {"role": "user", "parts": [{"kind": "text", "text": text}], **more}
        body = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": message}}
        sent = await self.person.call("POST", f"/workspaces/{seat.id}/a2a", body=body, headers={"x-timeout": "0"})
        if "activity_id" in sent:
            return str(sent["activity_id"])
        rows = await self.person.get(f"/workspaces/{seat.id}/activity", type="a2a_receive", limit=1)
        return str(rows[0]["id"])

    async def claim(self, seat: Seat, limit: int = 100, wait: int = 0) -> list[str]:
        """The ids of the messages that an agent claims."""
        path = f"/workspaces/{seat.id}/activity"
        rows = await bounded(seat.api.get(path, claim=600, wait=wait, limit=limit, include="instructions"))
        return [row["id"] for row in rows]

    async def ack(self, seat: Seat, activity_id: str) -> None:
        """Acknowledge a message that was claimed once."""
        await seat.api.post(f"/workspaces/{seat.id}/activity/ack", {"activity_id": activity_id, "attempt": 1})

    async def report(self, seat: Seat, key: str, tokens: int, cost: int | None = None, **more: Any) -> None:
        """An agent reports what a turn used."""
        body = {"key": key, "input_tokens": tokens, "cost_micros": cost, **more}
        await bounded(seat.api.post(f"/workspaces/{seat.id}/usage", body))

    async def pending(self) -> list[Item]:
        """The open approvals."""
        page = await self.person.get("/approvals/pending")
        found: list[Item] = page["approvals"]
        return found

    async def approval(self) -> Item:
        """The only request to raise a budget, once it is there."""
        (item,) = await eventually(self.pending, bool)
        return dict(item)

    async def decide(self, item: Item, decision: str, **more: Any) -> Item:
        """The person decides."""
        path = f"/workspaces/{item['workspace_id']}/approvals/{item['approval_id']}/decide"
        body = {"decision": decision, "revision": item["revision"], "action_hash": item["action_hash"], **more}
        decided: Item = await self.person.post(path, body)
        return decided

    async def events(self, name: str) -> list[Item]:
        """The events of a name, oldest first."""
        page = await self.person.get(f"/orgs/{self.org_id}/activity", event=name)
        found: list[Item] = page["events"]
        return found[::-1]
