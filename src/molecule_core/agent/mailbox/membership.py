"""Runs one workspace of an agent: register, heartbeat, read the inbox. Workspaces fail independently of each other.

Of several processes with the same workspace one leads: it registers, sends heartbeats and reads. The others check at
intervals whether it has gone. The reader claims messages under a lease and only up to the inbox's capacity, so that
nothing is dropped. Messages are acknowledged one by one, so that a crash brings back only unhandled ones.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from molecule_core.agent.async_utils import sleep
from molecule_core.agent.backoff import BackOff
from molecule_core.agent.client.auth_failures import AuthFailures, describe_auth_error, is_token_rejected
from molecule_core.agent.client.connections import ServerConnections, WorkspaceRequester
from molecule_core.agent.client.tokens import TokenRegistry
from molecule_core.agent.config import AgentSettings, WorkspaceConfig
from molecule_core.agent.mailbox.acks import AckTracker, acknowledge_message
from molecule_core.agent.mailbox.cursors import CursorFile, LeaderFenced
from molecule_core.agent.mailbox.inbox import EntryKey, MergedInbox
from molecule_core.agent.mailbox.leader import LeaderLock
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError, expect_member
from molecule_core.common.clock import Clock
from molecule_core.common.ids import Randomness
from molecule_core.tools.agent_cards import ALL_TOOL_NAMES, LOADED_TOOLS_MEMBER
from molecule_core.wire.schemas.envelope import include_parameter
from molecule_core.wire.schemas.inbox import InboxMessage, message_from_row

_log = logging.getLogger("molecule.agent")
_GONE = 410
REMOVED_CODE = "workspace_removed"
# A page fills an inbox in a few requests and is small enough to be shown soon.
_PAGE_SIZE = 100
# A workspace may be without its server for days.
_LOG_EVERY = 20


class MembershipEnded(Exception):
    """The workspace was removed for good."""


class LeadershipLost(Exception):
    """Another process leads now."""


class MembershipContext(Struct, frozen=True, kw_only=True):
    """Dependencies shared by all memberships of a process.

    `card`: returns the agent's card. `on_refused`: called if the server rejects the token when the only workspace is
    registered for the first time. `on_lost`: called if a workspace is lost for good, by processes that cannot work
    without it. `is_multi_workspace`: whether this process may have more than one workspace. `tools`: names of the tools
    that its host is offered.
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
    is_multi_workspace: bool = False
    tools: tuple[str, ...] = ALL_TOOL_NAMES


class Membership:
    """One workspace of this process.

    `state`: waiting, following, leading, away, refused or removed. `problem`: what is wrong now, for people and models.
    """

    def __init__(
        self, workspace: WorkspaceConfig, file: CursorFile, leader_lock: LeaderLock, context: MembershipContext
    ) -> None:
        self.id = workspace.id
        self.url = workspace.url
        self.state = "waiting"
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
        self._failures = 0
        self._started = context.clock.monotonic()
        self._leases: dict[str, float] = {}

    def api(self) -> ApiClient:
        """Return a client with the current token of this workspace; not to be kept, see `requester`."""
        return self.requester.api()

    @property
    def is_leading(self) -> bool:
        """Return whether this process reads the inbox."""
        return self.state not in ("waiting", "following", "removed")

    def leader_pid(self) -> int | None:
        """Return the process that leads or led last."""
        return self._leader_lock.leader_pid()

    def set_card(self, card: dict[str, Any]) -> None:
        """Set the agent card sent at the next registration."""
        self._card = card

    # -- lifecycle -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the workspace until cancelled or until it is removed."""
        while True:
            await self._wait_for_leadership()
            try:
                await self._lead_workspace()
            except MembershipEnded:
                self.state, self.problem = "removed", "this workspace was removed by its operator"
                self.first_poll_done.set()
                self._report_removed()
                return
            except (LeadershipLost, LeaderFenced):
                _log.warning("workspace %s: another process leads now", self.id)
            finally:
                self._inbox.drop_workspace(self.id)
                self._leases.clear()
                self._leader_lock.release()

    def _report_removed(self) -> None:
        if self._context.on_lost is not None:
            self._context.on_lost(f"workspace {self.id} was removed by its operator")
        else:
            _log.warning("workspace %s was removed; this agent goes on without it", self.id)

    async def _wait_for_leadership(self) -> None:
        """Wait until this process leads."""
        while True:
            try:
                if self._leader_lock.try_acquire(self._file.load().fence):
                    break
                self.state, self.problem = "following", ""
                self.first_poll_done.set()
            except OSError as error:
                self._set_problem(f"its lock file cannot be used: {error.strerror}")
            await sleep(self._clock, self._settings.follow_seconds * self._jitter())
        self._acks.take_over(self._leader_lock.fence)
        self.state = "waiting"
        self.first_poll_done.clear()

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
                self.state, self.problem, self._failures = "leading", "", 0
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
                self.state = "refused"
                self._auth_failures.record_failure(error, renewed=self.requester.has_newer_token(token))
                self._set_problem(describe_auth_error(error))
                return
        if not isinstance(error, ApiError | NoAnswerError | OSError):
            _log.error("workspace %s: an answer of %s was not understood", self.id, self.url, exc_info=error)
        self.state = "away"
        self._set_problem(
            f"{self.url} does not answer as it should ({str(error) or type(error).__name__}); trying again"
        )

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
        query = {"type": "a2a_receive", "since_id": self._acks.cursor, "limit": 1}
        try:
            await self.api().get(self._path("activity"), **query)
        except ApiError as error:
            if error.status != _GONE or error.code == REMOVED_CODE:
                raise
            _log.warning("workspace %s: the server does not know the cursor; beginning anew", self.id)
            self._acks.reset()
            self._inbox.drop_workspace(self.id)
            self._leases.clear()

    def _entry_keys(self) -> list[EntryKey]:
        return [entry.key for entry in self._inbox.entries() if entry.key[0] == self.id]

    def _path(self, rest: str) -> str:
        return f"/workspaces/{self.id}/{rest}"

    # -- loops ---------------------------------------------------------------------------------------------------------

    async def _run_loops(self) -> None:
        """Send heartbeats and read the inbox until one of the loops fails."""
        loops: list[Callable[[], Awaitable[None]]] = []
        if not self._settings.disable_heartbeat:
            loops.append(self._heartbeat_loop)
        loops.append(self._idle if self._settings.disable_inbox else self._claim_loop)
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
        except NoAnswerError:
            pass  # the reader notices it too
        except ApiError as error:
            if error.code == REMOVED_CODE:
                raise
            if is_token_rejected(error):
                self._auth_failures.record_heartbeat_failure(error)
                return error
        return None

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
            if capacity <= 0:
                await self._inbox.wait_for_change()
                continue
            rows = await self.api().claim(
                self.id,
                lease=self._settings.lease_seconds,
                wait=self._settings.hold_seconds if self.first_poll_done.is_set() else 0,
                limit=min(capacity + self._count_expired_leases(), _PAGE_SIZE),
                include=include_parameter(several=self._context.is_multi_workspace),
            )
            await self._store_claimed(rows)
            self.first_poll_done.set()

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
        self._acks.record_claimed(attempts, positions, already_handled)
        for message in messages:
            if message.activity_id not in already_handled:
                self._leases[message.activity_id] = lease_ends
                self._inbox.add_message(message)
        for activity_id in already_handled:
            await self._acks.confirm_ack(self.api(), activity_id)

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
        self._acks.mark_handled(activity_id, attempt)
        self._leases.pop(activity_id, None)
        self._inbox.mark_handled((self.id, activity_id))
        return await self._acks.confirm_ack(self.api(), activity_id)

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
        self._inbox.mark_handled((self.id, activity_id))
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
                raise NoAnswerError("an acknowledgement could not be told")

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
        if self.state != "leading":
            return
        try:
            await self._release_claims(self._acks.leftover_claims(set()))
        except (ApiError, NoAnswerError, OSError, LeaderFenced) as error:
            _log.info("workspace %s: mail comes again when its lease ends: %s", self.id, error)
