"""All seats of a process: which one a call is for, and never another one.

Above: verbs, engine. Below: membership.
"""

import asyncio
from collections.abc import Iterator, Sequence

from molecule_core.agent.membership import Membership
from molecule_core.agent.neutral import line
from molecule_core.ground.clock import Clock
from molecule_core.wire.toolspec import ToolError


class Seats:
    """The memberships of this process, in the order of the configuration."""

    def __init__(self, memberships: Sequence[Membership], *, single: bool) -> None:
        self.single = single
        self._by_id = {each.id: each for each in memberships}
        self._tasks: list[asyncio.Task[None]] = []

    def __iter__(self) -> Iterator[Membership]:
        return iter(self._by_id.values())

    def start(self) -> None:
        """Takes all seats, each for itself."""
        if not self._tasks:
            self._tasks = [asyncio.create_task(each.run()) for each in self._by_id.values()]

    async def stop(self, seconds: float) -> None:
        """Gives back what nobody handled, as far as the servers answer in so many seconds, and leaves all seats."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # Only now that no reader of ours asks any more: it would be handed out to us again.
        giving = [asyncio.create_task(each.give_back()) for each in self._by_id.values()]
        await asyncio.wait(giving, timeout=seconds)
        for task in giving:
            task.cancel()
        await asyncio.gather(*giving, return_exceptions=True)

    async def looked(self, clock: Clock, seconds: float) -> None:
        """Waits at most so long until what waits in each seat is known."""
        end = clock.monotonic() + seconds
        for each in self._by_id.values():
            if not each.looked.is_set():
                await clock.wait(each.looked.wait(), max(0.0, end - clock.monotonic()))

    def named(self, workspace_id: str) -> Membership:
        """The seat of this id. Raises ToolError if it is none of ours."""
        found = self._by_id.get(workspace_id)
        if found is None:
            raise ToolError(
                f"workspace {line(workspace_id, 64)} is none of yours, and no other one stands in for it. Yours: "
                f"{self.choices()}. Name one of these.",
                "unknown_workspace",
            )
        return found

    def meant(self, workspace_id: str, argument: str) -> Membership:
        """The seat that a call acts as: the named one, or the only one. Raises ToolError."""
        if workspace_id:
            return self.named(workspace_id)
        if len(self._by_id) == 1:
            return next(iter(self._by_id.values()))
        raise ToolError(
            f"you sit in several workspaces; say as which one you act with {argument}: {self.choices()}.",
            "ambiguous_workspace",
        )

    def choices(self) -> str:
        """The ids, for a refusal."""
        return ", ".join(f"{each.id} (at {each.url})" for each in self._by_id.values())

    def note(self) -> str:
        """What a model should know of seats whose mail this process does not have at this moment; empty if all is
        well."""
        told = []
        for each in self._by_id.values():
            if each.state == "following":
                pid = each.leader()
                whose = f"process {pid}" if pid is not None else "another process"
                told.append(f"the inbox of workspace {each.id} is read by {whose} of this agent")
            elif each.trouble:
                told.append(f"workspace {each.id}: {each.trouble}")
            elif not each.looked.is_set():
                told.append(f"workspace {each.id} is being connected and may have mail; call again in a moment")
        return "; ".join(told)
