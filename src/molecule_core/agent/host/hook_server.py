"""Answers the hooks of the host (Claude Code), which reach this process over a socket of the session.

A hook that waits is answered once a message has arrived that the model does not know of; this wakes an idle host. A
message is announced once. The hook at the end of a turn has the agent go on, once, if it has read a message and not
answered it; after that its last words are kept as the draft of the answer.
"""

import asyncio
import contextlib
import logging
import os
import socket
from pathlib import Path

import msgspec

from molecule_core.agent.host.hook_events import HookAnswer, HookEvent, HookName
from molecule_core.agent.host.hook_permissions import HookPermissions
from molecule_core.agent.host.hook_texts import stop_text, wake_text
from molecule_core.agent.mailbox.drafts import DraftKeeper
from molecule_core.agent.mailbox.inbox import MergedInbox
from molecule_core.agent.mailbox.memberships import Memberships
from molecule_core.client.host_socket import is_own_folder
from molecule_core.common.clock import Clock

_log = logging.getLogger("molecule.agent")
_MAX_LINE = 64 << 20
_WAKE_CODE = 2
_USED = (HookName.TOOL_USED, HookName.TOOL_FAILED)
_GONE_ON = (HookName.PROMPT, HookName.SESSION_END)


class HookServer:
    """Server of one session's hooks.

    `permissions`: None if permission prompts are not relayed. `announces`: whether a message wakes the host; not if it
    displays messages itself."""

    def __init__(
        self,
        path: Path,
        inbox: MergedInbox,
        memberships: Memberships,
        *,
        permissions: HookPermissions | None,
        announces: bool,
        clock: Clock,
        follow_seconds: float,
    ) -> None:
        self._path = path
        self._inbox = inbox
        self._memberships = memberships
        self._drafts = DraftKeeper(memberships.get_membership)
        self._clock = clock
        self._follow_seconds = follow_seconds
        self._permissions = permissions
        self._announces = announces
        self._waiter: asyncio.Task[HookAnswer] | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self.is_used = False
        """Whether the host has run a hook of ours."""

    @property
    def wakes_host(self) -> bool:
        """Return whether the hooks wake the host, so that nothing else needs to."""
        return self.is_used and self._announces

    @property
    def relays_permissions(self) -> bool:
        """Return whether the hooks relay the host's permission prompts."""
        return self.is_used and self._permissions is not None

    async def run(self) -> None:
        """Serve until cancelled. Without a socket, the host is not woken."""
        try:
            listener = _bind_private(self._path)
        except OSError as error:
            _log.warning("the hooks of this host are not answered: %s", error)
            return
        bound = self._path.stat().st_ino
        server = await asyncio.start_unix_server(self._accept, sock=listener, limit=_MAX_LINE)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            server.close()
            with contextlib.suppress(OSError):
                if self._path.stat().st_ino == bound:  # else a newer process of this host has taken the address
                    self._path.unlink()

    async def stop(self, seconds: float) -> None:
        """End all hooks and withdraw open approvals, waiting at most `seconds`."""
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving, timeout=seconds)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError, ValueError):
                event = msgspec.json.decode(await reader.readline(), type=HookEvent)
                self.is_used = True
                answer = await self._answer_while_open(event, reader)
                writer.write(msgspec.json.encode(answer) + b"\n")
                await writer.drain()
        finally:
            writer.close()

    async def _answer_while_open(self, event: HookEvent, reader: asyncio.StreamReader) -> HookAnswer:
        """Answer a hook, but not one that ended. Raises OSError if it did."""
        answering = asyncio.create_task(self._answer(event))
        ending = asyncio.create_task(reader.read())
        try:
            await asyncio.wait((answering, ending), return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                return answering.result()
            raise ConnectionError("the hook has ended")
        except asyncio.CancelledError:
            if answering.cancelled():  # a newer hook waits in its place
                return HookAnswer()
            raise
        finally:
            for task in (answering, ending):
                task.cancel()
            await asyncio.gather(answering, ending, return_exceptions=True)

    async def _answer(self, event: HookEvent) -> HookAnswer:
        if event.waits:
            return await self._replace_waiter()
        if event.hook_event_name == HookName.STOP:
            return await self._answer_stop(event)
        if self._permissions is None:
            return HookAnswer()
        if event.hook_event_name == HookName.PERMISSION:
            output = await self._permissions.decide(event)
            return HookAnswer(stdout=msgspec.json.encode(output).decode() if output else "")
        if event.hook_event_name in _USED:
            self._permissions.close_used(event)
        elif event.hook_event_name in _GONE_ON:
            self._permissions.close_all()
        return HookAnswer()

    # -- messages ------------------------------------------------------------------------------------------------------

    async def _replace_waiter(self) -> HookAnswer:
        """Wait for a message in place of the hook that waited before: each turn starts another one."""
        if self._waiter is not None:
            self._waiter.cancel()
        self._waiter = asyncio.create_task(self._wait_for_message())
        return await self._waiter

    async def _wait_for_message(self) -> HookAnswer:
        receiving = asyncio.create_task(self._receive_mail())
        try:
            while True:
                self._apply_notes()
                unknown = [each for each in self._inbox.entries() if not (each.is_announced or each.is_shown)]
                if unknown and self._announces:
                    for each in unknown:
                        each.is_announced = True
                    return HookAnswer(code=_WAKE_CODE, stderr=wake_text([each.message for each in unknown]) + "\n")
                await self._inbox.wait_for_change()
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)

    async def _receive_mail(self) -> None:
        """Take messages of the processes that lead, which change; a leader announces its own before it gives them."""
        while True:
            await self._clock.wait(self._memberships.wait_for_mail(), self._follow_seconds)

    def _apply_notes(self) -> None:
        for each in self._memberships:
            each.apply_notes()

    async def _answer_stop(self, event: HookEvent) -> HookAnswer:
        """Block the end of a turn if messages were read and not answered; the second time, keep the last words.

        The host's `stop_hook_active` does not count: it is set too if a hook that waited has begun the turn. Each
        message is named once, so this ends."""
        self._apply_notes()
        unanswered = [each for each in self._inbox.entries() if each.is_shown and each.message.wants_answer]
        unanswered = [each for each in unanswered if not each.has_progress]
        new = [each for each in unanswered if not each.is_urged]
        if new:
            for each in new:
                each.is_urged = True
            decision = {"decision": "block", "reason": stop_text([each.message for each in new])}
            return HookAnswer(stdout=msgspec.json.encode(decision).decode())
        text = (event.last_assistant_message or "").strip()
        if unanswered and text:
            await self._drafts.store_draft(unanswered[-1].key, text)
        return HookAnswer()


def _bind_private(path: Path) -> socket.socket:
    """Bind a socket that only this user can use. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_own_folder(str(path)):
        raise PermissionError(f"the folder {path.parent} belongs to another user")
    path.unlink(missing_ok=True)  # of an earlier process of this host
    listener = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o177)
    try:
        listener.bind(str(path))
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(mask)
    return listener
