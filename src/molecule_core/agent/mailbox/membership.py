"""One workspace of an agent: register, heartbeat, read the inbox. Whatever happens to it happens to no other one.

Of several processes with this seat one leads: it registers, beats and reads. The others look now and then whether it is
gone. The reader takes mail under a lease and never further than the inbox has room, so that nothing is ever dropped;
what is handled is said one by one, so that a crash brings back what was not.

Above: memberships. Below: acks, leader, inbox, connections.
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
# A page: enough to fill an inbox in a few, few enough to be shown soon.
_PAGE_SIZE = 100
# A seat without a server may stay so for days.
_LOG_EVERY = 20


class MembershipEnded(Exception):
    """The workspace is gone for good."""


class LeadershipLost(Exception):
    """Another process leads now."""


class MembershipContext(Struct, frozen=True, kw_only=True):
    """What all memberships of a process have in common. `card`: what the agent says of itself; `refused`: called if the
    server does not take the credential when the only seat is taken for the first time. `lost`: called if a seat is gone
    for good, by a process that is nothing without it. `several`: whether this process may sit in more than one
    workspace; `tools`: those that its host is given."""

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
    """A seat, as this process keeps it. `state`: waiting, following, leading, away, refused, removed; `trouble`: what
    is wrong at this moment, for people and models."""

    def __init__(
        self, workspace: WorkspaceConfig, file: CursorFile, leader_lock: LeaderLock, context: MembershipContext
    ) -> None:
        self.id = workspace.id
        self.url = workspace.url
        self.state = "waiting"
        self.problem = ""
        self.first_poll_done = asyncio.Event()
        """Set once it is known what waits here, or that this cannot be known now."""
        self.requester = WorkspaceRequester(workspace, context.servers, context.tokens)
        """For whoever keeps it: acts as this workspace, with the token of the moment."""
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
        """A client that acts as this workspace, with its token and no other; not to be kept, see `requests`."""
        return self.requester.api()

    @property
    def is_leading(self) -> bool:
        """Whether this process reads the inbox."""
        return self.state not in ("waiting", "following", "removed")

    def leader_pid(self) -> int | None:
        """The process that leads, or led last."""
        return self._leader_lock.leader_pid()

    def set_card(self, card: dict[str, Any]) -> None:
        """What the agent has said of itself since: the next time this seat is taken it says that."""
        self._card = card

    # -- the life of a seat --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keeps the seat until it is cancelled, or the workspace is removed."""
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
        """Until this process leads."""
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
        """Registers and works; after trouble again, later and later. Raises Removed, SteppedDown, Fenced."""
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
            except Exception as error:  # whatever a server answers, this seat goes on
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
        """Takes the seat, and sets right what an earlier life left. Raises ApiError, NoAnswer, OSError, Fenced."""
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
        """The server must know the cursor: it never lies beyond what the server has called handled. One that does not
        (rows go, stores are put back) makes this workspace begin anew, and no other."""
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

    # -- work ----------------------------------------------------------------------------------------------------------

    async def _run_loops(self) -> None:
        """Beats and reads until one of them fails."""
        works: list[Callable[[], Awaitable[None]]] = []
        if not self._settings.disable_heartbeat:
            works.append(self._heartbeat_loop)
        works.append(self._idle if self._settings.disable_inbox else self._claim_loop)
        tasks = [asyncio.ensure_future(work()) for work in works]
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
        """Says that the agent is there. A lost heartbeat is made up by the next one. Raises ApiError if it is refused:
        where the reader asks for nothing, nobody else would ever know."""
        while True:
            await sleep(self._clock, self._settings.heartbeat_seconds * self._jitter())
            if (error := await self._send_heartbeat()) is not None:
                raise error

    async def _send_heartbeat(self) -> ApiError | None:
        """Raises ApiError if removed."""
        try:
            await self.api().post("/registry/heartbeat", self._heartbeat_body())
            self._auth_failures.record_heartbeat()
        except NoAnswerError:
            pass  # the reader notices too
        except ApiError as error:
            if error.code == REMOVED_CODE:
                raise
            if is_token_rejected(error):
                self._auth_failures.record_heartbeat_failure(error)
                return error
        return None

    def _heartbeat_body(self) -> dict[str, Any]:
        at_work = sum(entry.is_shown for entry in self._inbox.entries() if entry.key[0] == self.id)
        uptime = int(self._clock.monotonic() - self._started)
        works = {"active_tasks": at_work, "uptime_seconds": uptime}
        return {"workspace_id": self.id, **works, LOADED_TOOLS_MEMBER: self._context.tools}

    async def _claim_loop(self) -> None:
        """Takes mail as long as there is room for it. Raises ApiError, NoAnswer, Fenced, SteppedDown, OSError."""
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
        """Of what is held, how much the server will hand out once more: that is no news and takes no room."""
        now = self._clock.monotonic()
        return sum(end <= now for end in self._leases.values())

    async def _store_claimed(self, rows: list[dict[str, Any]]) -> None:
        messages = [message_from_row(row, self.id) for row in rows if row.get("id")]  # control: receiving-seat
        attempts = {message.activity_id: message.attempt for message in messages}
        positions = {str(row.get("id")): row["seq"] for row in rows if isinstance(row.get("seq"), int)}
        lease_ends = self._clock.monotonic() + self._settings.lease_seconds
        # Handed out once more before the server heard that they are handled: that counts for this time too.
        already_handled = [each.activity_id for each in messages if self._is_handled(each)]
        self._acks.record_claimed(attempts, positions, already_handled)
        for message in messages:
            if message.activity_id not in already_handled:
                self._leases[message.activity_id] = lease_ends
                self._inbox.add_message(message)
        for activity_id in already_handled:
            await self._acks.confirm_ack(self.api(), activity_id)

    def _is_handled(self, message: InboxMessage) -> bool:
        """Whether it is handled already, and no reminder that was not here before."""
        known = self._inbox.handled_origins(message.activity_id, self.id) or self._acks.is_pending(message.activity_id)
        return bool(known) and not (message.reminder and not self._inbox.was_reminded(message))

    # -- handled -------------------------------------------------------------------------------------------------------

    async def ack_message(self, activity_id: str, attempt: int) -> bool:
        """A message is handled and does not come again, also if the server cannot be told now: then False.

        Raises Fenced."""
        self._acks.mark_handled(activity_id, attempt)
        self._leases.pop(activity_id, None)
        self._inbox.mark_handled((self.id, activity_id))
        return await self._acks.confirm_ack(self.api(), activity_id)

    async def ack_for_leader(self, activity_id: str, attempt: int) -> None:
        """The same in a process that does not lead. Raises ApiError, NoAnswer, OSError."""
        attempt = attempt or self.attempt_of(activity_id)
        await acknowledge_message(self.api(), self.id, activity_id, attempt)
        self.note_for_leader(activity_id, attempt)

    def attempt_of(self, activity_id: str) -> int:
        """The attempt under which the process that leads holds a message; 0 if it is not known."""
        return self._file.load().held.get(activity_id, 0)

    def mark_handled(self, activity_id: str) -> None:
        """The server knows already that a message is handled."""
        self._leases.pop(activity_id, None)
        self._inbox.mark_handled((self.id, activity_id))
        with contextlib.suppress(LeaderFenced):
            self._acks.mark_released({activity_id: 0})

    def note_for_leader(self, activity_id: str, attempt: int) -> None:
        """The same in a process that does not lead."""
        with contextlib.suppress(OSError):  # the leader shows it once more then
            self._file.append_note(activity_id, attempt)

    def apply_notes(self) -> None:
        """Lets go of what other processes have handled; the server knows it already."""
        if self.is_leading:
            for activity_id in self._acks.take_notes():
                self.mark_handled(activity_id)

    async def _confirm_acks(self) -> None:
        for activity_id in self._acks.pending:
            if not await self._acks.confirm_ack(self.api(), activity_id):
                raise NoAnswerError("an acknowledgement could not be told")

    async def _release_claims(self, left: dict[str, int]) -> None:
        """Gives mail back that this process will not handle, so that it need not wait for the end of its lease."""
        claims = [{"activity_id": id_, "attempt": attempt} for id_, attempt in left.items()]
        for start in range(0, len(claims), _PAGE_SIZE):
            batch = {"claims": claims[start : start + _PAGE_SIZE]}
            expect_member(await self.api().post(self._path("activity/release"), batch), "released", int)
        if claims:
            self._acks.mark_released(left)

    async def release_unhandled(self) -> None:
        """This process ends in order: the next one gets all that is not handled at once."""
        if self.state != "leading":
            return
        try:
            await self._release_claims(self._acks.leftover_claims(set()))
        except (ApiError, NoAnswerError, OSError, LeaderFenced) as error:
            _log.info("workspace %s: mail comes again when its lease ends: %s", self.id, error)
