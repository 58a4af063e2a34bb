"""Pushes messages to agents: the server polls on their behalf.

One worker for all agents, and a task per running push. Started by server/composition.py; calls PushClaims and the
fetcher. See docs/explanation/delivery.md."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

from msgspec import Struct

from molecule_core.common import crash_points
from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import FetchFailed, ServerBusy, StoreUnavailable, UnsafeUrl
from molecule_core.common.limits import Limits
from molecule_core.common.net.safe_fetch import Fetcher
from molecule_core.messages.delivery import push_policy
from molecule_core.messages.delivery.a2a_delivery import A2ADelivery
from molecule_core.messages.delivery.push_claims import PushClaims
from molecule_core.messages.delivery.push_policy import FairScheduler
from molecule_core.messages.delivery.push_signature import PushSigner
from molecule_core.messages.delivery_state import DeliveryFailure, PushAttempt, PushCapacity, PushResult
from molecule_core.messages.rules import offline_since
from molecule_core.org.model import Workspace, WorkspaceStatus
from molecule_core.org.reader import OrgReader
from molecule_core.store.journal import PUSHES_KEY
from molecule_core.store.wakeups import Notifier, Poll

_log = logging.getLogger("molecule.delivery")
# 5 s: the delay that a lost wake-up costs at most.
_POLL_SECONDS = 5.0
_RECORD_RETRY_SECONDS = 1.0
# Maximum number of due agents that are queued at once.
_MAX_DUE_TARGETS = 1000
# One organisation gets at most half of the slots, one agent a quarter: a hanging agent must not block others.
_ORG_SLOT_DIVISOR, _AGENT_SLOT_DIVISOR = 2, 4


class TargetHealth(Struct):
    """Per-agent state of this process between pushes.

    Times are microseconds; 0: never. `is_out_of_slots`: a push was due while all of the agent's slots were in use."""

    in_flight: int = 0
    is_out_of_slots: bool = False
    failures: int = 0
    open_until: int = 0
    last_answer_at: int = 0
    healthy_since: int = 0
    failed_at_url: str | None = None
    failed_while_silent: bool = False


class PushDispatcher:
    """Pushes waiting messages to agents with free capacity, in fair order."""

    def __init__(
        self,
        push_claims: PushClaims,
        org: OrgReader,
        wakeups: Notifier,
        fetcher: Fetcher,
        a2a_delivery: A2ADelivery,
        *,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._a2a_delivery = a2a_delivery
        self._push_claims = push_claims
        self._org = org
        self._wakeups = wakeups
        self._fetcher = fetcher
        self._clock = clock
        self._limits = limits
        self._scheduler = FairScheduler()
        self._health: dict[str, TargetHealth] = {}
        self._blocked: dict[str, set[str]] = {}
        self._heartbeat_marks: dict[str, int] = {}
        self._org_version = -1
        self._known_targets: set[str] = set()
        self._in_flight: dict[asyncio.Task[None], str] = {}

    @property
    def in_flight_count(self) -> int:
        """Return the number of running pushes."""
        return len(self._in_flight)

    def circuit_open_until(self, workspace_id: str) -> int | None:
        """Return until when an agent's circuit is open (microseconds); None if it is closed."""
        health = self._health.get(workspace_id)
        return health.open_until if health is not None and health.open_until > self._clock.now() else None

    async def run(self, *, exclusive: bool) -> None:
        """Run until the wake-ups close, then release the pushes that do not end in `push_stop_seconds`.

        `exclusive`: no other process pushes for this store, so leases on pushes are left over from a dead process."""
        if exclusive:
            await self._release_stale_leases()
        while not self._wakeups.closing:
            await self._wakeups.wait_until(PUSHES_KEY, self._dispatch_due, _POLL_SECONDS)
        await self._finish_pushes()

    async def _finish_pushes(self) -> None:
        """Wait for the running pushes: an agent whose response is not read gets the message again.

        They are released after `push_stop_seconds`; the work of an agent may take minutes."""
        in_flight = list(self._in_flight)
        if in_flight:  # in real time, as requests in progress
            await asyncio.wait(in_flight, timeout=self._limits.push_stop_seconds)
        for task in in_flight:
            task.cancel()
        await asyncio.gather(*in_flight, return_exceptions=True)

    async def _release_stale_leases(self) -> None:
        try:
            released = await self._push_claims.release_stale_leases()
            if released:
                _log.warning("%d pushes of the previous process are made again", released)
        except (StoreUnavailable, ServerBusy):
            _log.warning("pushes of the previous process are retried when their leases expire")

    # -- scheduling ----------------------------------------------------------------------------------------------------

    async def _dispatch_due(self) -> Poll[bool]:
        try:
            due = await self._push_claims.due_targets(_MAX_DUE_TARGETS)
            now = self._clock.now()
            for workspace_id, _ in (each for each in due if each[1] <= now):
                self._enqueue(workspace_id)
            self._enqueue_recently_active()
            next_checks = [at for _, at in due if at > now] + await self._dispatch_batches()
        except (StoreUnavailable, ServerBusy):
            return Poll(None)
        except Exception:
            _log.exception("loading pending pushes failed; it is retried soon")
            return Poll(None)
        return Poll(
            None, next_poll_in=max(0.0, (min(next_checks) - self._clock.now()) / SECOND) if next_checks else None
        )

    def _enqueue(self, workspace_id: str) -> None:
        workspace = self._org.workspace(workspace_id)
        if workspace is not None:
            self._blocked.get(workspace.org_id, set()).discard(workspace_id)
            self._scheduler.enqueue(workspace.org_id, workspace_id)

    def _enqueue_recently_active(self) -> None:
        """Enqueue blocked agents that sent a heartbeat since, or all of them if any workspace changed.

        An agent that is new to this process may have mail from before its delivery mode became push."""
        changed, self._org_version = self._org_version != self._org.change_count(), self._org.change_count()
        if changed:
            targets = self._org.push_workspace_ids()
            for workspace_id in targets - self._known_targets:
                self._enqueue(workspace_id)
            self._known_targets = set(targets)
        heartbeat_mark = self._org.last_heartbeat_number()
        for org_id, blocked in self._blocked.items():
            recently_active = (
                self._org.workspaces_after_heartbeat(org_id, self._heartbeat_marks.get(org_id, 0)) if blocked else []
            )
            self._heartbeat_marks[org_id] = heartbeat_mark
            for workspace_id in (
                list(blocked) if changed else [each.id for each in recently_active if each.id in blocked]
            ):
                self._enqueue(workspace_id)

    async def _dispatch_batches(self) -> list[int]:
        """Claim and start pushes for queued agents while slots are free; returns when to check some again."""
        next_checks: list[int] = []
        while batch := self._next_batch():
            share = max(1, (self._limits.push_concurrency - self.in_flight_count) // len(batch))
            capacities = [self._capacity_of(workspace_id, share) for _, workspace_id in batch]
            claiming = (
                self._push_claims.claim_batch(*target, capacity)
                for target, capacity in zip(batch, capacities, strict=True)
            )
            batches = await asyncio.gather(*claiming, return_exceptions=True)
            for (org_id, workspace_id), claimed in zip(batch, batches, strict=True):
                if isinstance(claimed, BaseException):  # a failed claim must not delay the pushes of the others
                    _log.warning("messages for an agent could not be claimed", exc_info=claimed)
                    # It is still due in the store, except for mail from before its delivery mode became push: that has
                    # no due time.
                    self._known_targets.discard(workspace_id)
                    self._org_version = -1
                    continue
                for push in claimed.pushes:
                    self._start_push(org_id, push, claimed.signer)
                if claimed.check_at is not None:
                    self._blocked.setdefault(org_id, set()).add(workspace_id)
                    next_checks.append(claimed.check_at)
        return next_checks

    def _next_batch(self) -> list[tuple[str, str]]:
        batch: list[tuple[str, str]] = []
        slots_used = Counter(self._in_flight.values())
        org_limit = max(1, self._limits.push_concurrency // _ORG_SLOT_DIVISOR)
        while self.in_flight_count + len(batch) < self._limits.push_concurrency:
            target = self._scheduler.next_target({org_id for org_id, count in slots_used.items() if count >= org_limit})
            if target is None:
                break
            slots_used[target[0]] += 1
            batch.append(target)
        return batch

    def _capacity_of(self, workspace_id: str, share: int) -> PushCapacity:
        """Return an agent's capacity, from its last heartbeat and the results of earlier pushes."""
        workspace, health, now = self._org.workspace(workspace_id), self._health_of(workspace_id), self._clock.now()
        if workspace is None or workspace.status is WorkspaceStatus.PAUSED:
            return PushCapacity(max_concurrent=0, max_new=0)
        if workspace.is_limited(now):
            return PushCapacity(max_concurrent=0, max_new=0, check_at=workspace.limited_until)
        self._reset_if_recovered(workspace, health)
        if health.open_until > now:
            return PushCapacity(max_concurrent=0, max_new=0, check_at=health.open_until)
        heartbeat = self._org.last_heartbeat(workspace_id)
        is_fresh = heartbeat.heard_at > max(health.last_answer_at, now - self._limits.silence_seconds * SECOND)
        is_free = heartbeat.active_tasks < workspace.max_concurrent_tasks
        is_probing = health.failures >= self._limits.circuit_failures
        slots_left = max(1, self._limits.push_concurrency // _AGENT_SLOT_DIVISOR) - health.in_flight
        health.is_out_of_slots = slots_left <= 0
        return PushCapacity(
            max_concurrent=1 if is_probing else workspace.max_concurrent_tasks,
            max_new=max(0, min(share, slots_left)),
            active=heartbeat.active_tasks if is_fresh else 0,
            free_since=max(health.last_answer_at, heartbeat.heard_at if is_free else 0),
            healthy_since=health.healthy_since,
        )

    def _health_of(self, workspace_id: str) -> TargetHealth:
        return self._health.setdefault(workspace_id, TargetHealth())

    def _reset_if_recovered(self, workspace: Workspace, health: TargetHealth) -> None:
        """Reset the failures of an agent that sends heartbeats again or has a new url."""
        is_back = (
            health.failed_while_silent and offline_since(workspace, self._org.last_heartbeat(workspace.id)) is None
        )
        has_moved = health.failed_at_url not in (None, workspace.url)
        if is_back or has_moved:
            health.failures = health.open_until = 0
            health.failed_at_url, health.failed_while_silent = None, False
            health.healthy_since = self._clock.now()

    # -- one push ------------------------------------------------------------------------------------------------------

    def _start_push(self, org_id: str, push: PushAttempt, signer: PushSigner) -> None:
        self._health_of(push.workspace_id).in_flight += 1
        task = asyncio.get_running_loop().create_task(self._deliver(org_id, push, signer))
        self._in_flight[task] = org_id
        task.add_done_callback(self._push_done_callback(push.workspace_id))

    def _push_done_callback(self, workspace_id: str) -> Callable[["asyncio.Task[None]"], None]:
        def on_done(task: "asyncio.Task[None]") -> None:
            del self._in_flight[task]
            health = self._health_of(workspace_id)
            health.in_flight -= 1
            if health.is_out_of_slots:  # the due time in the store is much later
                health.is_out_of_slots = False
                self._enqueue(workspace_id)
            if not task.cancelled() and (error := task.exception()) is not None:
                _log.error("the result of a push could not be stored; its lease will expire", exc_info=error)
            self._wakeups.notify((PUSHES_KEY,))

        return on_done

    async def _deliver(self, org_id: str, push: PushAttempt, signer: PushSigner) -> None:
        workspace = self._org.workspace(push.workspace_id)
        crash_points.mark_reached("push.taken")
        try:
            result = await self._post(workspace, push, signer)
        except asyncio.CancelledError:
            await self._push_claims.release(org_id, push)
            raise
        crash_points.mark_reached("push.answered")
        failure_counts = self._update_health(push.workspace_id, workspace, result)
        await self._record_result(org_id, push, result, failure_counts)
        crash_points.mark_reached("push.settled")

    async def _record_result(self, org_id: str, push: PushAttempt, result: PushResult, failure_counts: bool) -> None:
        """Record the result of a push, retrying while the store is unavailable.

        Retries last as long as a push may take, since a lost answer would make the agent do the same work again.
        Recording checks whether another push claimed the message meanwhile."""
        deadline = self._clock.monotonic() + self._limits.push_seconds
        while True:
            try:
                return await self._push_claims.record_result(
                    org_id, push, result, failure_counts=failure_counts
                )  # control: push-outcome
            except (StoreUnavailable, ServerBusy):
                if self._clock.monotonic() >= deadline:
                    raise
                await self._clock.wait(asyncio.get_running_loop().create_future(), _RECORD_RETRY_SECONDS)

    async def _post(self, workspace: Workspace | None, push: PushAttempt, signer: PushSigner) -> PushResult:
        if workspace is not None and workspace.a2a_card_url is not None:
            return await self._a2a_delivery.deliver(workspace, push)
        if workspace is None or workspace.url is None:
            return PushResult(
                error="this workspace has no url", refused=True, code=DeliveryFailure.UNSAFE_URL, sent=False
            )
        body = push.body.encode()
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Idempotency-Key": push.activity_id,
            "X-Molecule-Activity": push.activity_id,
            "X-Molecule-Attempt": str(push.attempt),
            **signer.headers(body, self._clock.now() // SECOND),
        }
        limits = self._limits
        try:
            response = await self._fetcher.post(
                workspace.url,
                headers,
                body,
                timeout_seconds=limits.push_seconds,
                max_bytes=limits.push_answer_bytes,
            )
        except UnsafeUrl as error:
            return PushResult(
                error=str(error.details["reason"]), refused=True, code=DeliveryFailure.UNSAFE_URL, sent=False
            )
        except FetchFailed as error:
            return push_policy.classify_failure(**error.details)
        return push_policy.classify_response(
            response.status, response.headers, response.body, max_depth=limits.json_depth
        )

    def _update_health(self, workspace_id: str, workspace: Workspace | None, result: PushResult) -> bool:
        """Update an agent's health after a push; returns whether a failure counts.

        It does not while the agent is limited, nor while it is silent: its mail waits then, and an occasional push only
        probes whether it is back."""
        health, now = self._health_of(workspace_id), self._clock.now()
        if result.answer is not None or result.busy:
            health.failures = health.open_until = 0
            health.failed_at_url, health.failed_while_silent = None, False
            if not result.busy:
                health.last_answer_at = now
            return True
        current = self._org.workspace(workspace_id) or workspace
        if current is not None and current.is_limited(now):
            return False
        is_silent = current is not None and offline_since(current, self._org.last_heartbeat(workspace_id)) is not None
        health.failures += 1
        health.healthy_since = 0
        health.failed_at_url = None if workspace is None else workspace.url
        health.failed_while_silent = is_silent
        if health.failures >= self._limits.circuit_failures:
            health.open_until = now + self._limits.circuit_seconds * SECOND
        return not is_silent
