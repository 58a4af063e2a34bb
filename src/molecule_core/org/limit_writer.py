"""Limits of workspaces: of vendors, before whose end its agent may not ask its model, and of budgets that are used up.
The messages of a limited workspace wait until then.

The packages of messages and delegations handle the domain events in the same transaction. A timer ends each limit."""

from collections.abc import Callable

from msgspec.structs import replace

from molecule_core.common.clock import SECOND, Clock, to_rfc3339
from molecule_core.common.limits import Limits
from molecule_core.common.text import truncate_line
from molecule_core.org.model import LimitBegan, LimitEnded, LimitEnder, Workspace
from molecule_core.org.registry import OrgRegistry
from molecule_core.org.transitions import update_statement, workspace_event
from molecule_core.store.database import Command, CommandSteps, JournalEvent, Statement, Store, WriteSet
from molecule_core.store.journal import PUSHES_KEY, log_key, org_key
from molecule_core.store.timers import TIMERS_KEY, cancel_timer, set_timer
from molecule_core.wire.schemas.events import WorkspaceLimitedPayload, WorkspaceLimitEndedPayload

LIMIT_TIMER = "vendor_limit"
"""Kind of the timer that ends a limit; its key is the workspace."""


class LimitWriter:
    """Begins and ends limits of workspaces."""

    def __init__(self, store: Store, registry: OrgRegistry, *, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._limits = limits

    async def begin_limit(self, workspace_id: str, until: int, reason: str, ender: LimitEnder) -> Workspace:
        """Limit a workspace until a time (microseconds), or change its end. A time that has passed ends it.

        A time beyond `vendor_limit_hours` is shortened to that: a wrong one must not keep an agent silent for ever.
        Raises NotFound, WorkspaceRemoved."""

        def decide() -> CommandSteps[Workspace]:
            yield from ()
            old, now = self._registry.active_workspace(workspace_id), self._clock.now()
            if until <= now:
                return self._end_write_set(old, now, ender)
            end = min(until, now + self._limits.vendor_limit_hours * 3600 * SECOND)
            text = truncate_line(reason, self._limits.short_text_length)
            if (old.limited_until, old.limit_reason) == (end, text):
                return WriteSet(old)
            return self._begin_write_set(old, end, text, now)

        return await self._store.run(self._command(workspace_id, decide))

    async def end_limit(self, workspace_id: str, ender: LimitEnder) -> Workspace:
        """End the limit of a workspace; does nothing if it has none. Raises NotFound, WorkspaceRemoved."""

        def decide() -> CommandSteps[Workspace]:
            yield from ()
            old, now = self._registry.active_workspace(workspace_id), self._clock.now()
            return self._end_write_set(old, now, ender)

        return await self._store.run(self._command(workspace_id, decide))

    async def on_due(self, workspace_id: str) -> None:
        """Handle a due timer: end the limit, unless it ends later now."""

        def decide() -> CommandSteps[Workspace | None]:
            yield from ()
            old, now = self._registry.workspace(workspace_id), self._clock.now()
            if old is None or old.removed or old.limited_until is None:
                return WriteSet(old, [cancel_timer(LIMIT_TIMER, workspace_id)])
            if old.is_limited(now):
                return WriteSet(old, [set_timer(LIMIT_TIMER, workspace_id, old.limited_until)], notify=(TIMERS_KEY,))
            return self._end_write_set(old, now, LimitEnder.TIME)

        workspace = self._registry.workspace(workspace_id)
        # Exclusive: the subscribers change the inbox and the delegations of the workspace.
        await self._store.run(Command("" if workspace is None else workspace.org_id, (), decide, exclusive=True))

    def begin_over_budget(self, workspace_id: str, until: int, reason: str, now: int) -> WriteSet[object]:
        """Return the changes that limit a workspace whose budget is used up; none if it is limited already."""
        old = self._registry.workspace(workspace_id)
        if old is None or old.removed or old.is_limited(now):
            return WriteSet(None)
        return self._begin_write_set(old, until, truncate_line(reason, self._limits.short_text_length), now)

    def end_over_budget(self, workspace_id: str, until: int, now: int) -> WriteSet[object]:
        """Return the changes that end such a limit; none if the workspace has another limit by now."""
        old = self._registry.workspace(workspace_id)
        if old is None or old.removed or old.limited_until != until:
            return WriteSet(None)
        return self._end_write_set(old, now, LimitEnder.BUDGET)

    def _begin_write_set(self, old: Workspace, end: int, reason: str, now: int) -> WriteSet[Workspace]:
        began = LimitBegan(old.id, end, old.limited_until if old.is_limited(now) else None, now)
        new = replace(old, rev=old.rev + 1, updated_at=now, limited_until=end, limit_reason=reason)
        event = workspace_event("WORKSPACE_LIMITED", new, WorkspaceLimitedPayload(to_rfc3339(end), reason))
        changed = self._update_write_set(new, event, set_timer(LIMIT_TIMER, old.id, end))
        return changed + WriteSet(None, notify=(TIMERS_KEY,), domain_events=[began])

    def _end_write_set(self, old: Workspace, now: int, ender: LimitEnder) -> WriteSet[Workspace]:
        if old.limited_until is None:
            return WriteSet(old)
        new = replace(old, rev=old.rev + 1, updated_at=now, limited_until=None, limit_reason=None)
        event = workspace_event("WORKSPACE_LIMIT_ENDED", new, WorkspaceLimitEndedPayload(ender.value))
        changed = self._update_write_set(new, event, cancel_timer(LIMIT_TIMER, old.id))
        return changed + WriteSet(None, domain_events=[LimitEnded(old.id, old.limited_until, now)])

    def _update_write_set(self, new: Workspace, event: JournalEvent, timer: Statement) -> WriteSet[Workspace]:
        return WriteSet(
            new,
            [update_statement(new), timer],
            [event],
            notify=(org_key(new.org_id), log_key(new.id), PUSHES_KEY),
            after_commit=lambda: self._registry.put_workspace(new),
        )

    def _command(self, workspace_id: str, decide: Callable[[], CommandSteps[Workspace]]) -> Command[Workspace]:
        org_id = self._registry.active_workspace(workspace_id).org_id
        return Command(org_id, (), decide, exclusive=True)
