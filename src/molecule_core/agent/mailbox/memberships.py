"""Holds all workspaces of a process and selects the one that a call acts as, never a different one."""

import asyncio
from collections.abc import Iterator, Sequence

from molecule_core.agent.mailbox.membership import Membership, MembershipState
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.common.clock import Clock
from molecule_core.tools.spec import ToolError


class Memberships:
    """Memberships of this process, in the order of the configuration."""

    def __init__(self, memberships: Sequence[Membership], *, single: bool) -> None:
        self.is_single = single
        self._by_id = {each.id: each for each in memberships}
        self._tasks: list[asyncio.Task[None]] = []

    def __iter__(self) -> Iterator[Membership]:
        return iter(self._by_id.values())

    def start_all(self) -> None:
        """Start all memberships, each in its own task."""
        if not self._tasks:
            self._tasks = [asyncio.create_task(each.run()) for each in self._by_id.values()]

    async def stop_all(self, seconds: float) -> None:
        """Stop all memberships and release unhandled claims, waiting at most `seconds` for the servers."""
        await asyncio.gather(*(each.finish_claim() for each in self._by_id.values()), return_exceptions=True)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # Only after our readers have stopped: they would claim the released messages again.
        releases = [asyncio.create_task(each.release_unhandled()) for each in self._by_id.values()]
        await asyncio.wait(releases, timeout=seconds)
        for task in releases:
            task.cancel()
        await asyncio.gather(*releases, return_exceptions=True)

    async def wait_for_mail(self) -> None:
        """Wait without end, and take messages that other processes of this agent have claimed, as they arrive."""
        waits = [asyncio.create_task(each.wait_for_mail()) for each in self._by_id.values() if each.shares_mail]
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            for task in waits:
                task.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def wait_first_poll(self, clock: Clock, seconds: float) -> None:
        """Wait at most `seconds` for the first poll of each workspace."""
        end = clock.monotonic() + seconds
        for each in self._by_id.values():
            if not each.first_poll_done.is_set():
                await clock.wait(each.first_poll_done.wait(), max(0.0, end - clock.monotonic()))

    def get_membership(self, workspace_id: str) -> Membership:
        """Return the membership with this id. Raises ToolError if it is none of ours."""
        found = self._by_id.get(workspace_id)
        if found is None:
            raise ToolError(
                f"workspace {sanitize_line(workspace_id, 64)} is not one of yours. Use one of your workspaces: "
                f"{self.describe_choices()}.",
                "unknown_workspace",
            )
        return found

    def resolve_membership(self, workspace_id: str, argument: str) -> Membership:
        """Return the membership that a call acts as: the named or the only one. Raises ToolError."""
        if workspace_id:
            return self.get_membership(workspace_id)
        if len(self._by_id) == 1:
            return next(iter(self._by_id.values()))
        raise ToolError(
            f"you have several workspaces. Set {argument} to the one to act as: {self.describe_choices()}.",
            "ambiguous_workspace",
        )

    def describe_choices(self) -> str:
        """Return the ids, for an error text."""
        return ", ".join(f"{each.id} (at {each.url})" for each in self._by_id.values())

    def problems_note(self) -> str:
        """Return what a model should know of workspaces whose messages are not available now; empty if all are."""
        notes = []
        for each in self._by_id.values():
            if each.state == MembershipState.FOLLOWING and not each.shares_mail:
                pid = each.leader_pid()
                reader = f"process {pid}" if pid is not None else "another process"
                notes.append(f"the inbox of workspace {each.id} is read by {reader} of this agent")
            elif each.problem:
                notes.append(f"workspace {each.id}: {each.problem}")
            elif not each.first_poll_done.is_set():
                notes.append(f"workspace {each.id} is still connecting and may have messages: call again in a moment")
        return "; ".join(notes)
