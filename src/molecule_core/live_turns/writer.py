"""Writes live turns: reports of agents, and requests of people to stop.

Nothing is journaled: a turn is what happens now, and its outcome is stored by other means.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import CapacityExceeded
from molecule_core.common.limits import Limits
from molecule_core.live_turns import rules
from molecule_core.live_turns.errors import TurnNotRunning
from molecule_core.live_turns.model import LiveTurn, TurnKey, TurnThread, stops_key
from molecule_core.live_turns.turn_store import TurnStore
from molecule_core.org.model import Workspace
from molecule_core.store.wakeups import Notifier, Poll
from molecule_core.wire.schemas.live_turns import StopControl, TurnReport

# A turn that runs on is asked to stop again after this long: the response with the request may have been lost.
_REPEAT_SECONDS = 2.0


class LiveTurnWriter:
    """Writer of live turns."""

    def __init__(self, turns: TurnStore, wakeups: Notifier, *, clock: Clock, limits: Limits) -> None:
        self._turns = turns
        self._wakeups = wakeups
        self._clock = clock
        self._limits = limits
        self._stops_sent: dict[TurnKey, float] = {}
        """When this process last sent the agent a request to stop."""

    # -- agents --------------------------------------------------------------------------------------------------------

    async def report(
        self, workspace: Workspace, activity_id: str, thread: TurnThread, reports: Sequence[TurnReport]
    ) -> list[StopControl]:
        """Add reports to a turn, which begins with the first; return what people want. Raises CapacityExceeded."""
        maximum = self._limits.live_turns

        def change(known: LiveTurn | None, others: int) -> LiveTurn:
            now = self._clock.now()
            if known is None and others >= maximum:
                raise CapacityExceeded(what="live turns of one workspace", most=maximum)
            if known is None or rules.begins_anew(known, reports):
                known = LiveTurn(
                    org_id=workspace.org_id,
                    workspace_id=workspace.id,
                    activity_id=activity_id,
                    thread_id=thread.thread_id,
                    root_workspace_id=thread.root_workspace_id,
                    started_at=now,
                    expires_at=now,
                    rev=now if known is None else known.rev,
                )
            return rules.apply_reports(known, reports, now, self._limits)

        turn = await self._turns.change(workspace.org_id, TurnKey(workspace.id, activity_id), change)
        return self._take_stops([] if turn is None else [turn])

    async def wait_for_controls(self, workspace: Workspace, activity_id: str | None, wait: float) -> list[StopControl]:
        """Wait until people want something of a turn, or of any turn of the workspace. A wait keeps turns alive."""
        await self._keep_alive(workspace, activity_id)

        async def poll() -> Poll[list[StopControl]]:
            turns = await self._turns.of_workspace(workspace.id)
            stops = self._take_stops([each for each in turns if activity_id in (None, each.activity_id)])
            return Poll(stops or None, next_poll_in=_REPEAT_SECONDS if self._stops_sent else None)

        return await self._wakeups.wait_until(stops_key(workspace.id), poll, wait) or []

    async def _keep_alive(self, workspace: Workspace, activity_id: str | None) -> None:
        """Postpone the end of turns that would be forgotten soon."""
        half = self._limits.live_silence_seconds * SECOND // 2

        def change(known: LiveTurn | None, _others: int) -> LiveTurn | None:
            now = self._clock.now()
            if known is None or known.ended or known.expires_at - now > half:
                return None
            return replace(known, expires_at=rules.expiry_of(known, now, self._limits))

        for turn in await self._turns.of_workspace(workspace.id):
            if (
                activity_id in (None, turn.activity_id)
                and not turn.ended
                and turn.expires_at - self._clock.now() < half
            ):
                await self._turns.change(workspace.org_id, turn.key, change)

    def _take_stops(self, turns: Sequence[LiveTurn]) -> list[StopControl]:
        """Return the requests to stop these turns that were not sent to the agent just now."""
        now = self._clock.monotonic()
        self._stops_sent = {key: at for key, at in self._stops_sent.items() if now - at < _REPEAT_SECONDS}
        due = [each.key for each in turns if each.waits_for_stop and each.key not in self._stops_sent]
        self._stops_sent.update(dict.fromkeys(due, now))
        return [StopControl(key.activity_id) for key in due]

    # -- people --------------------------------------------------------------------------------------------------------

    async def request_stop(self, workspace: Workspace, activity_id: str, by: str) -> None:
        """Request that a running turn stops. Raises TurnNotRunning."""

        def change(known: LiveTurn | None, _others: int) -> LiveTurn | None:
            if known is None or known.ended:
                raise TurnNotRunning(activity_id=activity_id)
            if known.waits_for_stop:
                return None
            return replace(known, stop_requested_by=by, rev=known.rev + 1)

        await self._turns.change(workspace.org_id, TurnKey(workspace.id, activity_id), change)

    async def request_thread_stop(self, org_id: str, workspace_id: str, thread_id: str, by: str) -> None:
        """Request that the running turns of a thread stop, if there are any."""

        def change(known: LiveTurn | None, _others: int) -> LiveTurn | None:
            if known is None or known.ended or known.waits_for_stop:
                return None
            return replace(known, stop_requested_by=by, rev=known.rev + 1)

        for turn in await self._turns.of_workspace(workspace_id):
            if turn.thread_id == thread_id:
                await self._turns.change(org_id, turn.key, change)
