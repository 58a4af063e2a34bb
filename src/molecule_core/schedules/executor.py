"""Runs due schedules. A run's row and its message or delegation are written by one command.

`ScheduleExecutor.on_due` is the handler of a schedule's timer (store/timers.py), which any process may call, and call
again after a crash. The command reads the schedule first: a planned time that another one has handled is not its next
one any more, and the run's row has the planned time in its key.
"""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import MoleculeError, NotFound, WorkspaceRemoved
from molecule_core.common.limits import Limits
from molecule_core.delegations.acceptance_rules import parse_terms
from molecule_core.delegations.model import DelegationRequest
from molecule_core.delegations.writer import DelegationWriter
from molecule_core.messages.model import MessageDraft, Sender
from molecule_core.messages.obligations.model import AnswerTarget
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.model import WorkspaceStatus
from molecule_core.org.reader import OrgReader
from molecule_core.schedules.model import SCHEDULE, RunOutcome, Schedule, ScheduleRun
from molecule_core.schedules.rules import build_run, missed_reason, overlap_run, plan_due
from molecule_core.schedules.subscribers import SERVER
from molecule_core.schedules.transitions import pause, ran_event, timer_statement
from molecule_core.schedules.writer import schedule_key
from molecule_core.store.database import Command, CommandSteps, ReadQuery, Statement, StepRequest, Store, WriteSet
from molecule_core.store.journal import org_key
from molecule_core.store.timers import TIMERS_KEY, cancel_timer
from molecule_core.wire.schemas.activity import Intent

_PERSON = "person:"
_EDITORS = ("operator", "owner")
_PERMANENT = (NotFound, WorkspaceRemoved)
_Begin = Callable[[int], CommandSteps[tuple[str, str]]]
"""Begins the work of a planned time; returns its id, and a remark."""


class _PreparedWork(msgspec.Struct, frozen=True):
    """Steps that begin the work of a schedule, and the keys of their command."""

    keys: tuple[tuple[str, ...], ...]
    steps: _Begin


class ScheduleExecutor:
    """Runs due schedules."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        messages: MessageWriter,
        delegations: DelegationWriter,
        *,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._store = store
        self._org = org
        self._messages = messages
        self._delegations = delegations
        self._clock = clock
        self._limits = limits

    async def on_due(self, key: str) -> None:
        """Handle the timer of a schedule: run one planned time, and set the timer to the next."""
        org_id, _, schedule_id = key.partition("/")
        rows = await self._store.rows("schedule", {"org_id": org_id, "id": schedule_id})
        prepared = self._prepare(Schedule.from_row(rows[0])) if rows else None
        keys = () if prepared is None else prepared[1].keys

        def decide() -> CommandSteps[None]:
            found = yield ReadQuery("schedule", {"org_id": org_id, "id": schedule_id})
            if not found or prepared is None:
                return WriteSet(None, [cancel_timer(SCHEDULE, key)])
            known = Schedule.from_row(found[0])
            if known.rev != prepared[0].rev:
                # Changed since: its keys may be others.
                return WriteSet(None, [timer_statement(known, known.next_at)], notify=(TIMERS_KEY,))
            return (yield from self._decide_due(known, prepared[1].steps))

        await self._store.run(Command(org_id, (schedule_key(org_id), *keys), decide))

    # -- decisions -----------------------------------------------------------------------------------------------------

    def _decide_due(self, schedule: Schedule, begin: _Begin) -> CommandSteps[None]:
        now = self._clock.now()
        if schedule.paused:
            return WriteSet(None, [timer_statement(schedule, None)])
        waiting = {"schedule_id": schedule.id, "count": self._limits.schedule_queued_runs + 1}
        queued = [ScheduleRun.from_row(row) for row in (yield ReadQuery("queued_schedule_runs", waiting))]
        is_open = yield from _is_last_open(schedule)
        if queued and not is_open:
            return (yield from self._run(schedule, queued[0].planned_at, 0, begin, now, queued=len(queued) - 1))
        plan = plan_due(schedule, now, self._limits.schedule_grace_seconds)
        moved = replace(schedule, next_at=plan.next_at)
        if plan.run_at is None and not plan.missed:
            return self._moved(moved, len(queued), now)
        if plan.run_at is None:
            missed_at = plan.missed_at or now
            run = build_run(schedule, missed_at, now, RunOutcome.MISSED, missed_reason(plan.missed), missed=plan.missed)
            return self._recorded(moved, run, len(queued), now)
        if is_open or queued:
            run = overlap_run(schedule, plan.run_at, len(queued), self._limits.schedule_queued_runs, now)
            count = len(queued) + (run.outcome is RunOutcome.QUEUED)
            return self._recorded(moved, replace(run, missed=plan.missed), count, now)
        return (yield from self._run(moved, plan.run_at, plan.missed, begin, now, queued=0))

    def _run(
        self, schedule: Schedule, planned_at: int, missed: int, begin: _Begin, now: int, *, queued: int
    ) -> CommandSteps[None]:
        """Begin the work of a planned time and record it. An error that stays pauses the schedule."""
        known = partial(build_run, schedule, planned_at, now, missed=missed)
        if (source := schedule.source_id) is not None:
            workspace = self._org.workspace(source)
            if workspace is not None and workspace.status is WorkspaceStatus.PAUSED:
                run = known(RunOutcome.SKIPPED, "the workspace that it acts for is paused")
                return self._recorded(schedule, run, queued, now)
        elif not (yield from _is_author_editor(schedule)):
            run = known(RunOutcome.FAILED, "its author is no longer an operator of the organisation")
            return self._failed_for_good(schedule, run, now)
        try:
            begun = yield from begin(planned_at)
        except _PERMANENT as error:
            return self._failed_for_good(schedule, known(RunOutcome.FAILED, error.text), now)
        except MoleculeError as error:
            return self._recorded(schedule, known(RunOutcome.FAILED, error.text), queued, now)
        if begun.error is not None:
            # Its change records why it was rejected: for people, and for the next ones.
            reason = begun.error.text if isinstance(begun.error, MoleculeError) else str(begun.error)
            run = known(RunOutcome.FAILED, reason)
            return self._recorded(schedule, run, queued, now) + replace(begun, error=None)
        work_id, remark = begun.result
        outcome = RunOutcome.DELEGATED if schedule.decode_work().action == "delegate" else RunOutcome.SENT
        if missed:
            remark = f"{missed_reason(missed)}. {remark}".rstrip(" .")
        return self._recorded(schedule, known(outcome, remark, work_id=work_id), queued, now) + begun

    def _recorded(self, schedule: Schedule, run: ScheduleRun, queued: int, now: int) -> WriteSet[None]:
        writes: list[Statement] = [
            ("save_schedule_run", run),
            ("delete_surplus_schedule_runs", {"schedule_id": schedule.id, "kept": self._limits.schedule_runs - 1}),
        ]
        recorded = WriteSet(None, writes, [ran_event(schedule, run, now)], (org_key(schedule.org_id),))
        return self._moved(schedule, queued, now) + recorded

    def _moved(self, schedule: Schedule, queued: int, now: int) -> WriteSet[None]:
        """Store the next planned time and set the timer to it, or earlier for queued runs."""
        due = schedule.next_at
        if queued:
            check_at = now + self._limits.schedule_queue_seconds * SECOND
            due = check_at if due is None else min(due, check_at)
        writes: list[Statement] = [("update_schedule", schedule), timer_statement(schedule, due)]
        return WriteSet(None, writes, notify=(TIMERS_KEY,))

    def _failed_for_good(self, schedule: Schedule, run: ScheduleRun, now: int) -> WriteSet[None]:
        """Record a run that fails, as all later ones would, and pause the schedule."""
        paused, change = pause(schedule, run.reason, now, SERVER)
        return WriteSet(None, [("save_schedule_run", run)], [ran_event(paused, run, now)]) + change

    # -- the work ------------------------------------------------------------------------------------------------------

    def _prepare(self, schedule: Schedule) -> tuple[Schedule, _PreparedWork]:
        work = schedule.decode_work()
        try:
            begun = self._prepare_delegation(schedule) if work.action == "delegate" else self._prepare_message(schedule)
        except MoleculeError as error:
            begun = _PreparedWork((), partial(_raise, error))
        return schedule, begun

    def _prepare_message(self, schedule: Schedule) -> _PreparedWork:
        sender = (
            Sender(schedule.author, None, schedule.author_id, schedule.author_name)
            if schedule.source_id is None
            else Sender.of_workspace(schedule.source_id)
        )
        draft = MessageDraft(
            sender=sender,
            params={"metadata": {}},
            message={
                "kind": "message",
                "role": "user",
                "parts": [{"kind": "text", "text": schedule.decode_work().text}],
                "metadata": {"schedule_id": schedule.id},
            },
            rpc_id=None,
            text=schedule.decode_work().text,
            intent=Intent.REQUEST,
            dedupe_key=None,
            context_id=None,
        )

        def begin(planned_at: int) -> CommandSteps[tuple[str, str]]:
            keyed = replace(draft, dedupe_key=_work_key(schedule, planned_at))
            target = None if sender.workspace_id is None else AnswerTarget(None)
            sent = yield from self._messages.decide_send(schedule.target_id, keyed, target)
            return sent.returning(("", "")) if sent.error else sent.returning((sent.result.activity_id, ""))

        keys = self._messages.send_keys(schedule.target_id, draft, exclusive=False)
        return _PreparedWork(keys, begin)

    def _prepare_delegation(self, schedule: Schedule) -> _PreparedWork:
        work, source_id = schedule.decode_work(), schedule.source_id or ""
        terms = parse_terms(work.accept, work.rounds, self._limits)
        request = DelegationRequest(
            source_id=source_id,
            target_id=schedule.target_id,
            parts=[{"kind": "text", "text": work.text}],
            task=work.text,
            # Begun by a person, so that the scope of what the workspace works on now does not apply.
            sender=Sender(f"workspace:{source_id}", source_id, schedule.author_id, schedule.author_name),
            metadata={"schedule_id": schedule.id},
            deadline_seconds=work.deadline_seconds,
            checks=terms.checks,
            rounds=terms.rounds,
            may=work.may,
        )
        _, keys, steps = self._delegations.prepare_begin(request)

        def begin(_planned_at: int) -> CommandSteps[tuple[str, str]]:
            begun = yield from steps()
            if begun.error:
                return begun.returning(("", ""))
            remark = "the same task was open already" if begun.result.is_duplicate else ""
            return begun.returning((begun.result.row.id, remark))

        return _PreparedWork(keys, begin)


def _raise(error: MoleculeError, _planned_at: int) -> CommandSteps[tuple[str, str]]:
    yield from ()
    raise error


def _work_key(schedule: Schedule, planned_at: int) -> str:
    """Return the key by which a repetition of a run's message would be recognised."""
    return f"schedule:{schedule.id}:{planned_at}"


def _is_last_open(schedule: Schedule) -> Generator[StepRequest, Any, bool]:
    """Return whether the last delegation has not ended, or the last message is not acknowledged."""
    rows = yield ReadQuery("last_scheduled_work", {"schedule_id": schedule.id})
    if not rows:
        return False
    work_id, outcome = rows[0]
    if outcome == RunOutcome.DELEGATED:
        found = yield ReadQuery("open_scheduled_delegation", {"org_id": schedule.org_id, "id": work_id})
    else:
        found = yield ReadQuery("open_scheduled_message", {"id": work_id})
    return bool(found and found[0][0])


def _is_author_editor(schedule: Schedule) -> Generator[StepRequest, Any, bool]:
    """Return whether the author of a schedule may edit the organisation. The admin always may."""
    if not schedule.author.startswith(_PERSON) or schedule.author_id is None:
        return True
    rows = yield ReadQuery("persons_of_org", {"org_id": schedule.org_id})
    return any(row[0] == schedule.author_id and row[3] in _EDITORS for row in rows)
