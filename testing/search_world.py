"""A server with people who search, and all that they can find."""

from typing import Any, NamedTuple

from molecule_core.client.api import ApiClient
from testing.clocks import FakeClock
from testing.running_server import Running, Seat
from testing.waits import bounded

Item = dict[str, Any]


class SearchWorld(NamedTuple):
    """A server, its first organisation, a viewer and an operator of it, and the time."""

    server: Running
    org_id: str
    viewer: ApiClient
    operator: ApiClient
    clock: FakeClock

    @classmethod
    async def on(cls, server: Running, clock: FakeClock) -> "SearchWorld":
        """The world of a server that has just begun."""
        org_id = (await server.admin.get("/orgs"))[0]["id"]
        return cls(server, org_id, await server.person("viewer"), await server.person(), clock)

    async def indexed(self) -> None:
        """All that was written is in the index, and time has passed."""
        await bounded(self.server.server.search.indexer.index_all())
        await self.clock.advance(1)

    async def finds(self, words: str, by: ApiClient | None = None, **query: Any) -> list[Item]:
        """The results of a page."""
        return list((await self.page(words, by, **query))["results"])

    async def page(self, words: str, by: ApiClient | None = None, **query: Any) -> Item:
        """A page of results, of the operator if it is not somebody else's."""
        org_id = query.pop("org_id", self.org_id)
        found: Item = await bounded((by or self.operator).get(f"/orgs/{org_id}/search", q=words, **query))
        return found

    async def writes(self, seat: Seat, text: str, by: Seat | None = None) -> None:
        """A message of the operator, or of a peer."""
        message = {"role": "user", "parts": [{"kind": "text", "text": text}]}
        body = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": message}}
        api = self.operator if by is None else by.api
        await bounded(api.call("POST", f"/workspaces/{seat.id}/a2a", body=body, headers={"x-timeout": "0"}))
        await self.indexed()

    async def notifies(self, seat: Seat, text: str) -> None:
        """A message of an agent to its people."""
        await bounded(seat.api.post(f"/workspaces/{seat.id}/notify", {"message": text}))
        await self.indexed()

    async def delegates(self, source: Seat, target: Seat, task: str) -> str:
        """A task for another agent; its id."""
        body = {"target_id": target.id, "task": task}
        begun = await bounded(source.api.post(f"/workspaces/{source.id}/delegate", body))
        await self.indexed()
        return str(begun["delegation_id"])

    async def remembers(self, seat: Seat, content: str) -> str:
        """A memory; its id."""
        kept = await bounded(seat.api.post(f"/workspaces/{seat.id}/memories", {"content": content}))
        await self.indexed()
        return str(kept["id"])


def texts(results: list[Item]) -> list[str]:
    """What the results show."""
    return [each["snippet"]["text"] for each in results]


def marked(result: Item) -> list[str]:
    """The words of a snippet that are marked as found."""
    snippet = result["snippet"]
    return [snippet["text"][first:end] for first, end in snippet["matches"]]
