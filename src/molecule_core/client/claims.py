"""Receives messages of several workspaces by plain claims, for callers without a mailbox of their own.

Called by `tool_runner.py`; calls `tools/runners/message_tools.py`.
"""

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from molecule_core.common.clock import Clock
from molecule_core.tools.runners import message_tools
from molecule_core.tools.runners.file_tools import FileTransfer
from molecule_core.tools.runners.requester import Requester
from molecule_core.tools.spec import ToolError
from molecule_core.wire.schemas.inbox import InboxMessage

PollTasks = dict[str, "asyncio.Task[InboxMessage | None]"]


class ActingWorkspace(Struct, frozen=True):
    """A workspace that calls are made as. `transfer`: for its files; None: it has no tools for files."""

    id: str
    url: str
    requester: Requester
    transfer: FileTransfer | None = None


class MessageClaims:
    """Claims the next message of any workspace.

    A poll in progress is not cancelled when another workspace was faster: the server may already have delivered a
    message to it, so its result is kept for the next call."""

    def __init__(self, workspaces: Sequence[ActingWorkspace], *, clock: Clock, lease: int) -> None:
        self._workspaces = workspaces
        self._clock = clock
        self._lease = lease
        self._polls: PollTasks = {}
        self._claimed: dict[str, InboxMessage] = {}
        """Claimed and not returned yet, by id, oldest first."""

    @property
    def waiting_count(self) -> int:
        """Return the number of messages that were claimed in advance."""
        return len(self._claimed)

    async def next_message(
        self, seconds: float, progress: message_tools.ProgressCallback | None
    ) -> InboxMessage | None:
        """Return the next message, or None after `seconds`.

        A workspace whose server fails does not delay the others. Raises ToolError if all fail."""
        started_at = self._clock.monotonic()
        failed: dict[str, ToolError] = {}
        self._collect_finished(failed)
        await self._claim_ready(failed)
        while not self._claimed and (remaining := seconds - (self._clock.monotonic() - started_at)) > 0:
            self._start_polls(remaining, failed)
            await self._clock.wait(asyncio.wait(self._polls.values(), return_when=asyncio.FIRST_COMPLETED), remaining)
            self._collect_finished(failed)
            if progress is not None and not self._claimed:
                await progress(min(self._clock.monotonic() - started_at, seconds), seconds, "no message yet")
        return self._claimed.pop(next(iter(self._claimed))) if self._claimed else None

    async def _claim_ready(self, failed: dict[str, ToolError]) -> None:
        """Claim waiting messages, one workspace after the other, so that no more are claimed than needed."""
        for workspace in self._workspaces:
            if not self._claimed and workspace.id not in self._polls:
                try:
                    self._store_claimed(await self._claim(workspace, 0))
                except ToolError as error:
                    failed[workspace.id] = error
        self._raise_if_all_failed(failed)

    def _start_polls(self, seconds: float, failed: dict[str, ToolError]) -> None:
        for workspace in self._workspaces:
            if workspace.id not in self._polls and workspace.id not in failed:
                self._polls[workspace.id] = asyncio.create_task(self._claim(workspace, seconds))

    async def _claim(self, workspace: ActingWorkspace, seconds: float) -> InboxMessage | None:
        return await message_tools.claim_message(
            workspace.requester, workspace.id, seconds, lease=self._lease, has_several=len(self._workspaces) > 1
        )

    def _collect_finished(self, failed: dict[str, ToolError]) -> None:
        """Store the results of finished polls."""
        for workspace_id in [each for each, poll in self._polls.items() if poll.done()]:
            try:
                self._store_claimed(self._polls.pop(workspace_id).result())
            except ToolError as error:
                failed[workspace_id] = error
        self._raise_if_all_failed(failed)

    def _raise_if_all_failed(self, failed: dict[str, ToolError]) -> None:
        if len(failed) == len(self._workspaces) and not self._claimed:
            raise next(iter(failed.values()))

    def _store_claimed(self, message: InboxMessage | None) -> None:
        if message is not None:
            self._claimed[message.activity_id] = message

    async def close(self) -> None:
        """Cancel all polls and release unreturned messages, so that they are delivered again at once."""
        polls = list(self._polls.values())
        for poll in polls:
            poll.cancel()
        for result in await asyncio.gather(*polls, return_exceptions=True):
            if isinstance(result, InboxMessage):
                self._store_claimed(result)
        for workspace in self._workspaces:
            held_messages = [each for each in self._claimed.values() if each.arrival_workspace_id == workspace.id]
            if held_messages:
                await self._release(workspace, held_messages)

    async def _release(self, workspace: ActingWorkspace, messages: Sequence[InboxMessage]) -> None:
        claims = [{"activity_id": each.activity_id, "attempt": each.attempt} for each in messages]
        try:
            await workspace.requester.call(
                "POST", f"/workspaces/{workspace.id}/activity/release", body={"claims": claims}
            )
        except ToolError:
            return  # their leases expire anyway
