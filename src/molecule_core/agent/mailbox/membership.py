"""Runs one workspace of an agent: register, heartbeat, read the inbox. Workspaces fail independently of each other.

Of several processes with the same workspace one leads: it registers, sends heartbeats and reads. The others check at
intervals whether it has gone. The reader claims messages under a lease and only up to the inbox's capacity, so that
nothing is dropped. Messages are acknowledged one by one, so that a crash brings back only unhandled ones.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from molecule_core.agent.async_utils import sleep
from molecule_core.agent.backoff import BackOff
from molecule_core.agent.client.auth_failures import (
    AuthFailures,
    describe_auth_error,
    is_caller_rejected,
    is_token_rejected,
)
from molecule_core.agent.client.connections import ServerConnections, WorkspaceRequester
from molecule_core.agent.client.tokens import TokenRegistry
from molecule_core.agent.config import AgentSettings, WorkspaceConfig
from molecule_core.agent.mailbox.acks import AckTracker, acknowledge_message
from molecule_core.agent.mailbox.cursors import CursorFile, LeaderFenced
from molecule_core.agent.mailbox.inbox import EntryKey, InboxEntry, MergedInbox
from molecule_core.agent.mailbox.leader import LeaderLock
from molecule_core.agent.mailbox.mail_transfer import MailClient, MailServer
from molecule_core.agent.mailbox.received_files import ReceivedFiles
from molecule_core.client.api import ApiClient, ApiError, ConnectionBroken, NoAnswerError, expect_member
from molecule_core.client.contact_file import ContactFile
from molecule_core.client.host_context_file import CONTEXT_PATH, HostContextFile
from molecule_core.common.clock import Clock
from molecule_core.common.ids import Randomness
from molecule_core.wire.schemas.activity import ActivityType
from molecule_core.wire.schemas.agent_cards import ALL_TOOL_NAMES, LOADED_TOOLS_MEMBER
from molecule_core.wire.schemas.envelope import include_parameter
from molecule_core.wire.schemas.inbox import InboxMessage, message_from_row

_log = logging.getLogger("molecule.agent")
_GONE = 410
REMOVED_CODE = "workspace_removed"
# A page fills an inbox in a few requests and is small enough to be shown soon.
_PAGE_SIZE = 100
# A workspace may be without its server for days.
_LOG_EVERY = 20
# An answer within this time needs no report that its message was read.
_READ_REPORT_SECONDS = 0.3
# 1 s: an answer that is on its way arrives; a server that does not answer must not delay the end of a session. Asked
# again, since the first request may reach the server before the claim.
_FINISH_SECONDS, _FINISH_TRIES = 1.0, 3


class MembershipState(StrEnum):
    """What a process does for a workspace."""

    WAITING = "waiting"
    """It has not registered yet."""
    FOLLOWING = "following"
    """Another process of this machine leads."""
    LEADING = "leading"
    REFUSED = "refused"
    """The server rejects its token."""
    AWAY = "away"
    """The server does not answer."""
    REMOVED = "removed"


class MembershipEnded(Exception):
    """The workspace was removed for good."""


class LeadershipLost(Exception):
    """Another process leads now."""


class MembershipContext(Struct, frozen=True, kw_only=True):
    """Dependencies shared by all memberships of a process.

    `card`: returns the agent's card. `on_refused`: called if the server rejects the token when the only workspace is
    registered for the first time. `on_lost`: called if a workspace is lost for good, by processes that cannot work
    without it. `files`: folder of received files; None: they are not fetched. `is_multi_workspace`: whether this
    process may have more than one workspace. `tools`: names of the tools that its host is offered. `context_file`:
    where the surroundings of a workspace are kept for the next start; None: they are not.
    """

    clock: Clock
    randomness: Randomness
    settings: AgentSettings
    tokens: TokenRegistry
    servers: ServerConnections
    inbox: MergedInbox
    card: Callable[[], dict[str, Any]]
    on_refused: Callable[[str], None] | None = None
    on_lost: Callable[[str], None] | None = None
    files: Path | None = None
    is_multi_workspace: bool = False
    tools: tuple[str, ...] = ALL_TOOL_NAMES
    context_file: Callable[[WorkspaceConfig], HostContextFile] | None = None


class Membership:
    """One workspace of this process.

    `state`: waiting, following, leading, away, refused or removed. `problem`: what is wrong now, for people and models.
    """

    def __init__(
        self, workspace: WorkspaceConfig, file: CursorFile, leader_lock: LeaderLock, context: MembershipContext
    ) -> None:
        self.id = workspace.id
        self.url = workspace.url
        self.state: MembershipState = MembershipState.WAITING
        self.problem = ""
        self.first_poll_done = asyncio.Event()
        """Set once the first poll is done, or cannot be done now."""
        self.requester = WorkspaceRequester(workspace, context.servers, context.tokens)
        """Makes requests as this workspace with the current token; may be kept."""
        self._file = file
        self._acks = AckTracker(workspace.id, file)
        self._leader_lock = leader_lock
        self._context = context
        self._clock = context.clock
        self._inbox = context.inbox
        self._settings = context.settings
        self._card: dict[str, Any] | None = None
        self._auth_failures = AuthFailures(
            workspace.id,
            clock=context.clock,
            is_fixed=workspace.token_file is None,
            on_refused=context.on_refused,
            on_lost=context.on_lost,
        )
        self._contact = None if workspace.token_file is None else ContactFile(workspace.token_file)
        self._context_file = None if context.context_file is None else context.context_file(workspace)
        self._files = None if context.files is None else ReceivedFiles(context.files, self.api)
        self._mail_server = MailServer(self.id, self._inbox, self._record_taken, self._record_returned)
        self._mail_client = MailClient(self._store_transferred)
        self._reading_mail: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._claim_ended = asyncio.Event()
        """Set while no claim is on its way."""
        self._claim_ended.set()
        self._unconfirmed: dict[str, int] = {}
        """Messages handled here while another process leads, whose ack has not reached the server."""
        self._failures = 0
        self._started = context.clock.monotonic()
        self._leases: dict[str, float] = {}

    def api(self) -> ApiClient:
        """Return a client with the current token of this workspace; not to be kept, see `requester`."""
        return self.requester.api()

    @property
    def is_leading(self) -> bool:
        """Return whether this process reads the inbox."""
        return self.state not in (MembershipState.WAITING, MembershipState.FOLLOWING, MembershipState.REMOVED)

    @property
    def shares_mail(self) -> bool:
        """Return whether the leading process gives messages to this one."""
        return self.state == MembershipState.FOLLOWING and self._mail_client.is_connected

    def leader_pid(self) -> int | None:
        """Return the process that leads or led last."""
        return self._leader_lock.leader_pid()

    @property
    def card(self) -> dict[str, Any] | None:
        """Return the agent card that was set since the start, or None."""
        return self._card

    def set_card(self, card: dict[str, Any]) -> None:
        """Set the agent card sent at the next registration."""
        self._card = card

    # -- lifecycle -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the workspace until cancelled or until it is removed."""
        reporting = asyncio.create_task(self._report_loop())
        try:
            await self._run_membership()
        finally:
            reporting.cancel()
            await asyncio.gather(reporting, return_exceptions=True)

    async def _run_membership(self) -> None:
        while True:
            await self._wait_for_leadership()
            try:
                await self._mail_server.start(self._leader_lock.mail_address)
                await self._lead_workspace()
            except MembershipEnded:
                self.state, self.problem = MembershipState.REMOVED, "this workspace was removed by its operator"
                self.first_poll_done.set()
                self._report_removed()
                return
            except (LeadershipLost, LeaderFenced):
                _log.warning("workspace %s: another process is the leader now", self.id)
            finally:
                await self._mail_server.close()
                self._inbox.drop_workspace(self.id)
                self._leases.clear()
                self._leader_lock.release()

    def _report_removed(self) -> None:
        if self._context.on_lost is not None:
            self._context.on_lost(f"workspace {self.id} was removed by its operator")
        else:
            _log.warning("workspace %s was removed; this agent continues without it", self.id)

    async def _wait_for_leadership(self) -> None:
        """Wait until this process leads; until then, get messages from the leader."""
        try:
            while True:
                try:
                    if self._leader_lock.try_acquire(self._file.load().fence):
                        break
                    self.state, self.problem = MembershipState.FOLLOWING, ""
                except OSError as error:
                    self._set_problem(f"its lock file cannot be used: {error.strerror}")
                await self._follow_leader(self._settings.follow_seconds * self._jitter())
        finally:
            if self._reading_mail is not None:
                self._reading_mail.cancel()
                await asyncio.gather(self._reading_mail, return_exceptions=True)
        self._acks.take_over(self._leader_lock.fence)
        self._own_transferred()
        self.state = MembershipState.WAITING
        self.first_poll_done.clear()

    async def _follow_leader(self, seconds: float) -> None:
        """Read messages of the leader for `seconds`, or until it ends."""
        if self._reading_mail is None or self._reading_mail.done():
            try:
                await self._mail_client.connect(self._leader_lock.mail_address)
            except OSError:  # no leader, or one of an earlier version
                self.first_poll_done.set()
                await sleep(self._clock, seconds)
                return
            self._reading_mail = asyncio.create_task(self._mail_client.read())
            self.first_poll_done.set()
        await self._clock.wait(asyncio.shield(self._reading_mail), seconds)
        await self._report_from_follower()

    async def _report_from_follower(self) -> None:
        """Confirm a contact that `molecule connect` waits for, and repeat acknowledgements that failed."""
        if self._contact is not None and self._contact.is_requested():
            with contextlib.suppress(ApiError, NoAnswerError):
                await self.api().get(self._path("waiting"))
                self._confirm_contact()
        for activity_id, attempt in list(self._unconfirmed.items()):
            await self._ack_transferred(activity_id, attempt)

    def _own_transferred(self) -> None:
        """Take the messages of this process over into its own state: it leads now."""
        entries = self._own_entries()
        attempts = {each.message.activity_id: each.message.attempt for each in entries} | self._unconfirmed
        with contextlib.suppress(LeaderFenced):
            self._acks.record_claimed(attempts, {}, list(self._unconfirmed))
        self._unconfirmed.clear()

    def _jitter(self) -> float:
        return 0.75 + 0.5 * self._context.randomness.bits(16) / (1 << 16)

    async def _lead_workspace(self) -> None:
        """Register and work; retry with back-off. Raises MembershipEnded, LeadershipLost, LeaderFenced."""
        back_off = BackOff(self._settings.retry_seconds, self._settings.retry_most_seconds, self._context.randomness)
        while True:
            token = self.requester.token
            try:
                async with self._context.servers.connect_gate(self.url):
                    await self._register()
                back_off.reset()
                if self._failures:
                    _log.warning("workspace %s: connected to %s again", self.id, self.url)
                self.state, self.problem, self._failures = MembershipState.LEADING, "", 0
                await self._run_loops()
            except (MembershipEnded, LeadershipLost, LeaderFenced):
                raise
            except Exception as error:  # an unexpected response must not end the membership
                self._handle_error(error, token)
                min_wait = error.problem.get("retry_after") if isinstance(error, ApiError) else None
                await sleep(
                    self._clock, max(back_off.next_delay(), min_wait if isinstance(min_wait, int | float) else 0)
                )

    def _handle_error(self, error: Exception, token: str) -> None:
        if isinstance(error, ApiError):
            if error.code == REMOVED_CODE:
                raise MembershipEnded from None
            if is_token_rejected(error):
                self.state = MembershipState.REFUSED
                self._auth_failures.record_failure(error, renewed=self.requester.has_newer_token(token))
                self._set_problem(describe_auth_error(error))
                return
        if not isinstance(error, ApiError | NoAnswerError | OSError):
            _log.error("workspace %s: a response of %s has an unknown format", self.id, self.url, exc_info=error)
        self.state = MembershipState.AWAY
        reason = str(error).rstrip(".") or type(error).__name__
        if isinstance(error, ConnectionBroken | OSError):
            self._set_problem(f"the connection to {self.url} broke or cannot be opened ({reason}); retrying")
        else:
            self._set_problem(f"{self.url} returned an unexpected response ({reason}); retrying")

    def _set_problem(self, text: str) -> None:
        self.problem = text
        self.first_poll_done.set()
        self._failures += 1
        if self._failures == 1 or self._failures % _LOG_EVERY == 0:
            _log.warning("workspace %s: %s", self.id, text)

    async def _register(self) -> None:
        """Register the workspace and finish what an earlier process left.

        Raises ApiError, NoAnswerError, OSError, LeaderFenced.
        """
        card = self._card if self._card is not None else self._context.card()
        body = {
            "id": self.id,
            "agent_card": {**card, LOADED_TOOLS_MEMBER: self._context.tools},
            "delivery_mode": "poll",
        }
        expect_member(await self.api().post("/registry/register", body), "status", str)
        self._auth_failures.record_success()
        self._confirm_contact()
        if not self._settings.disable_heartbeat:
            await self._send_heartbeat()
        if self._settings.disable_inbox:
            return
        await self._check_cursor()
        await self._confirm_acks()
        await self._release_claims(
            self._acks.leftover_claims({id_ for _, id_ in self._entry_keys()})
        )  # control: release-left-over

    async def _check_cursor(self) -> None:
        """Check that the server knows the cursor, which is never beyond its ack floor; otherwise reset this workspace.

        The server may have pruned the message or restored a backup. Other workspaces are not affected.
        """
        if not self._acks.cursor:
            return
        query = {"type": ActivityType.RECEIVE, "since_id": self._acks.cursor, "limit": 1}
        try:
            await self.api().get(self._path("activity"), **query)
        except ApiError as error:
            if error.status != _GONE or error.code == REMOVED_CODE:
                raise
            _log.warning("workspace %s: the server does not know the cursor; starting from the beginning", self.id)
            self._acks.reset()
            self._inbox.drop_workspace(self.id)
            self._leases.clear()

    def _entry_keys(self) -> list[EntryKey]:
        return [entry.key for entry in self._own_entries()]

    def _own_entries(self) -> list[InboxEntry]:
        return [entry for entry in self._inbox.entries() if entry.key[0] == self.id]

    def _path(self, rest: str) -> str:
        return f"/workspaces/{self.id}/{rest}"

    # -- loops ---------------------------------------------------------------------------------------------------------

    async def _run_loops(self) -> None:
        """Send heartbeats and read the inbox until one of the loops fails."""
        loops: list[Callable[[], Awaitable[None]]] = []
        if not self._settings.disable_heartbeat:
            loops.append(self._heartbeat_loop)
        loops.append(self._idle if self._settings.disable_inbox else self._claim_loop)
        if self._context_file is not None:
            loops.append(partial(self._context_loop, self._context_file))
        tasks = [asyncio.ensure_future(loop()) for loop in loops]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _idle(self) -> None:
        self.first_poll_done.set()
        await asyncio.get_running_loop().create_future()

    async def _heartbeat_loop(self) -> None:
        """Send heartbeats; a lost one is made up by the next.

        Raises ApiError if one is rejected: with the inbox disabled, nothing else would notice.
        """
        while True:
            await sleep(self._clock, self._settings.heartbeat_seconds * self._jitter())
            if (error := await self._send_heartbeat()) is not None:
                raise error

    async def _send_heartbeat(self) -> ApiError | None:
        """Send a heartbeat; return a rejection of the token. Raises ApiError if the workspace was removed."""
        try:
            await self.api().post("/registry/heartbeat", self._heartbeat_body())
            self._auth_failures.record_heartbeat()
            self._confirm_contact()
        except NoAnswerError:
            pass  # the reader notices it too
        except ApiError as error:
            if error.code == REMOVED_CODE:
                raise
            if is_token_rejected(error):
                self._auth_failures.record_heartbeat_failure(error)
                return error
        return None

    async def _context_loop(self, file: HostContextFile) -> None:
        """Keep the surroundings of the workspace for the next start. A failure only leaves the older copy."""
        while True:
            with contextlib.suppress(ApiError, NoAnswerError):
                file.save(await self.api().get(CONTEXT_PATH.format(id=self.id)))
            await sleep(self._clock, self._settings.context_seconds * self._jitter())

    def _confirm_contact(self) -> None:
        """Confirm to `molecule connect` that this process has reached the server with its token."""
        if self._contact is not None:
            self._contact.confirm(len(self._context.tools))

    def _heartbeat_body(self) -> dict[str, Any]:
        active_tasks = sum(entry.is_shown for entry in self._inbox.entries() if entry.key[0] == self.id)
        uptime = int(self._clock.monotonic() - self._started)
        load = {"active_tasks": active_tasks, "uptime_seconds": uptime}
        return {"workspace_id": self.id, **load, LOADED_TOOLS_MEMBER: self._context.tools}

    async def _claim_loop(self) -> None:
        """Claim messages while there is capacity.

        Raises ApiError, NoAnswerError, LeaderFenced, LeadershipLost, OSError.
        """
        while True:
            if not self._leader_lock.is_held():
                raise LeadershipLost
            self.apply_notes()
            if self._acks.pending:
                await self._confirm_acks()
            capacity = self._settings.inbox_messages - self._inbox.count_waiting(self.id)
            if capacity <= 0 or self._is_stopping:
                await self._inbox.wait_for_change()
                continue
            self._claim_ended.clear()
            try:
                rows = await self.api().claim(
                    self.id,
                    lease=self._settings.lease_seconds,
                    wait=self._settings.hold_seconds if self.first_poll_done.is_set() else 0,
                    limit=min(capacity + self._count_expired_leases(), _PAGE_SIZE),
                    include=include_parameter(several=self._context.is_multi_workspace),
                    reports_read=True,
                )
                await self._store_claimed(rows)
            finally:
                self._claim_ended.set()
            self.first_poll_done.set()

    async def _report_loop(self) -> None:
        """Report which messages the model has read, so that their senders see them as delivered."""
        back_off = BackOff(self._settings.retry_seconds, self._settings.retry_most_seconds, self._context.randomness)
        while True:
            if not any(each.is_shown and not each.is_reported for each in self._own_entries()):
                await self._inbox.wait_for_change()
                continue
            await sleep(self._clock, _READ_REPORT_SECONDS)
            unreported = [each for each in self._own_entries() if each.is_shown and not each.is_reported]
            try:
                await self._report_read(unreported[:_PAGE_SIZE])
                back_off.reset()
            except (ApiError, NoAnswerError):
                await sleep(self._clock, back_off.next_delay())

    async def _report_read(self, entries: list[InboxEntry]) -> None:
        """Report messages. What the server rejects is not reported again. Raises ApiError, NoAnswerError."""
        claims = [{"activity_id": each.message.activity_id, "attempt": each.message.attempt} for each in entries]
        try:
            if claims:
                await self.api().post(self._path("activity/read"), {"claims": claims})
        except ApiError as error:
            if error.is_transient or is_caller_rejected(error):
                raise
            _log.debug("workspace %s: the server does not take what was read: %s", self.id, error)
        for each in entries:
            each.is_reported = True

    async def finish_claim(self) -> None:
        """End the claim that waits at the server and store what it brings, at an orderly end.

        Without this, messages that the server has sent meanwhile would be undelivered until their lease ends."""
        self._is_stopping = True
        for _ in range(_FINISH_TRIES):
            if self._claim_ended.is_set() or self.state != MembershipState.LEADING:
                return
            ending = asyncio.create_task(self._end_waits())
            try:
                await self._clock.wait(self._claim_ended.wait(), _FINISH_SECONDS / _FINISH_TRIES)
            finally:
                ending.cancel()
                await asyncio.gather(ending, return_exceptions=True)

    async def _end_waits(self) -> None:
        with contextlib.suppress(ApiError, NoAnswerError):
            await self.api().post(self._path("activity/release"), {"claims": [], "end_waits": True})
        await asyncio.get_running_loop().create_future()

    def _count_expired_leases(self) -> int:
        """Return how many held messages the server will redeliver: these are not new and need no capacity."""
        now = self._clock.monotonic()
        return sum(end <= now for end in self._leases.values())

    async def _store_claimed(self, rows: list[dict[str, Any]]) -> None:
        messages = [message_from_row(row, self.id) for row in rows if row.get("id")]  # control: receiving-seat
        attempts = {message.activity_id: message.attempt for message in messages}
        positions = {str(row.get("id")): row["seq"] for row in rows if isinstance(row.get("seq"), int)}
        lease_ends = self._clock.monotonic() + self._settings.lease_seconds
        # Redelivered before the server received the ack: the new attempt counts as handled too.
        already_handled = [each.activity_id for each in messages if self._is_handled(each)]
        elsewhere = [each.activity_id for each in messages if self._mail_server.redeliver(each)]
        attempts = {id_: attempt for id_, attempt in attempts.items() if id_ not in elsewhere}
        self._acks.record_claimed(attempts, positions, already_handled)
        for message in messages:
            if message.activity_id not in (*already_handled, *elsewhere):
                self._leases[message.activity_id] = lease_ends
                await self._add_message(message)
        for activity_id in already_handled:
            await self._acks.confirm_ack(self.api(), activity_id)

    async def _add_message(self, message: InboxMessage) -> None:
        """Add a message to the inbox, with its files fetched. The announcement of an upload costs no turn."""
        complete = message if self._files is None else await self._files.complete_message(message)
        if complete is None:
            await self.ack_message(message.activity_id, message.attempt)
        else:
            self._inbox.add_message(complete)

    def _is_handled(self, message: InboxMessage) -> bool:
        """Return whether it is handled already, and is no new reminder."""
        known = self._inbox.handled_origins(message.activity_id, self.id) or self._acks.is_pending(message.activity_id)
        return bool(known) and not (message.reminder and not self._inbox.was_reminded(message))

    # -- acks ----------------------------------------------------------------------------------------------------------

    async def ack_message(self, activity_id: str, attempt: int) -> bool:
        """Mark a message as handled and acknowledge it.

        Returns False if the server cannot be reached now; the message is not shown again in either case. Raises
        LeaderFenced.
        """
        if self.state == MembershipState.FOLLOWING:
            self._inbox.mark_handled((self.id, activity_id))
            return await self._ack_transferred(activity_id, attempt)
        self._acks.mark_handled(activity_id, attempt)
        self._leases.pop(activity_id, None)
        self._inbox.mark_handled((self.id, activity_id))
        return await self._acks.confirm_ack(self.api(), activity_id)

    async def _ack_transferred(self, activity_id: str, attempt: int) -> bool:
        """Acknowledge a message that came from the leader; a later try follows if the server cannot be reached."""
        self._unconfirmed[activity_id] = attempt
        try:
            await acknowledge_message(self.api(), self.id, activity_id, attempt)
        except NoAnswerError:
            return False
        except ApiError as error:
            if error.is_transient or is_caller_rejected(error):
                return False
            _log.info("workspace %s: the ack of %s was rejected: %s", self.id, activity_id, error)
        self._unconfirmed.pop(activity_id, None)
        self.note_for_leader(activity_id, attempt)
        return True

    # -- messages of the leader in other processes -----------------------------------------------------------------

    async def fetch_mail(self, count: int, seconds: float) -> None:
        """Take messages from the leader that its model has not seen, if another process leads."""
        if self.shares_mail:
            await self._clock.wait(self._take_mail(count, wait=False), seconds)

    @property
    def leader_waiting_count(self) -> int:
        """Return how many messages the leading process has left for this one; 0 if this one leads."""
        return self._mail_client.waiting_count if self.shares_mail else 0

    async def wait_for_mail(self) -> None:
        """Wait for a message of the leader, if another process leads; else wait without end."""
        while self.shares_mail:
            await self._take_mail(1, wait=True)
        await asyncio.get_running_loop().create_future()

    async def _take_mail(self, count: int, *, wait: bool) -> None:
        self._store_transferred(await self._mail_client.request_messages(count, wait=wait))

    def return_unseen(self) -> None:
        """Return messages to the leader that no result of a tool has shown."""
        if self.shares_mail:
            unseen = self._inbox.find_unknown(self.id, self._inbox.count_waiting(self.id))
            for entry in unseen:
                self._inbox.take_message(entry.key)
            self._mail_client.return_messages([entry.message.activity_id for entry in unseen])

    def _store_transferred(self, messages: list[InboxMessage]) -> None:
        for message in messages:
            self._inbox.add_message(message)

    def _record_taken(self, ids: list[str]) -> None:
        """Record that another process has messages: this one must not release them."""
        for id_ in ids:
            self._leases.pop(id_, None)
        with contextlib.suppress(LeaderFenced):
            self._acks.mark_released(dict.fromkeys(ids, 0))

    def _record_returned(self, messages: list[InboxMessage]) -> None:
        """Take messages back that another process has not handled."""
        self.apply_notes()
        open_messages = [each for each in messages if not self._is_handled(each)]
        with contextlib.suppress(LeaderFenced):
            self._acks.record_claimed({each.activity_id: each.attempt for each in open_messages}, {})
        self._store_transferred(open_messages)

    async def ack_for_leader(self, activity_id: str, attempt: int) -> None:
        """Acknowledge a message in a process that does not lead. Raises ApiError, NoAnswerError, OSError."""
        attempt = attempt or self.attempt_of(activity_id)
        await acknowledge_message(self.api(), self.id, activity_id, attempt)
        self.note_for_leader(activity_id, attempt)

    def attempt_of(self, activity_id: str) -> int:
        """Return the attempt under which the leading process holds a message; 0 if not known."""
        return self._file.load().held.get(activity_id, 0)

    def mark_handled(self, activity_id: str) -> None:
        """Mark a message as handled that the server knows to be handled."""
        self._leases.pop(activity_id, None)
        entries = self._inbox.find_entries(activity_id, self.id)
        self._inbox.mark_handled((self.id, activity_id))
        self._mail_server.forget(activity_id)
        if not self.is_leading:
            self.note_for_leader(activity_id, entries[0].message.attempt if entries else 0)
            return
        with contextlib.suppress(LeaderFenced):
            self._acks.mark_released({activity_id: 0})

    def note_for_leader(self, activity_id: str, attempt: int) -> None:
        """Note a handled message for the leader, in a process that does not lead."""
        with contextlib.suppress(OSError):  # the leader shows it once more then
            self._file.append_note(activity_id, attempt)

    def apply_notes(self) -> None:
        """Remove what other processes have handled; the server knows it already."""
        if self.is_leading:
            for activity_id in self._acks.take_notes():
                self.mark_handled(activity_id)

    async def _confirm_acks(self) -> None:
        for activity_id in self._acks.pending:
            if not await self._acks.confirm_ack(self.api(), activity_id):
                raise NoAnswerError("an acknowledgement could not be sent")

    async def _release_claims(self, attempts: dict[str, int]) -> None:
        """Release claims that this process will not handle, so that they need not wait for the end of their lease."""
        claims = [{"activity_id": id_, "attempt": attempt} for id_, attempt in attempts.items()]
        for start in range(0, len(claims), _PAGE_SIZE):
            batch = {"claims": claims[start : start + _PAGE_SIZE]}
            expect_member(await self.api().post(self._path("activity/release"), batch), "released", int)
        if claims:
            self._acks.mark_released(attempts)

    async def release_unhandled(self) -> None:
        """Release all unhandled claims at an orderly end, so that the next process gets them at once."""
        if self.state == MembershipState.FOLLOWING:
            claims = {each.message.activity_id: each.message.attempt for each in self._own_entries()}
        elif self.state == MembershipState.LEADING:
            claims = self._acks.leftover_claims(set())
        else:
            return
        try:
            await self._release_claims(claims)
        except (ApiError, NoAnswerError, OSError, LeaderFenced) as error:
            _log.info("workspace %s: messages are delivered again when their lease expires: %s", self.id, error)
