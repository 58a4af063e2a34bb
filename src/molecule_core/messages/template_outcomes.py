"""Counts the outcomes of messages per template version, and rolls back a canary that does worse.

An outcome of a canary only sets a timer in its own transaction, so answers never wait for counting; without a canary it
costs one lookup in memory. The command of the timer counts the outcomes and ends the trial."""

from collections.abc import Generator
from typing import Any, Protocol

from molecule_core.common.clock import Clock, to_rfc3339
from molecule_core.common.errors import NotFound
from molecule_core.common.limits import Limits
from molecule_core.common.metrics import InstructionMeter
from molecule_core.instructions.canaries import CanaryWriter, template_keys
from molecule_core.instructions.canary_statistics import (
    MAX_BASE_OUTCOMES,
    MAX_CANARY_OUTCOMES,
    OutcomeCount,
    alarm_threshold,
    is_significantly_worse,
    p_value,
)
from molecule_core.instructions.model import ActiveVersion, Template
from molecule_core.instructions.reader import InstructionReader
from molecule_core.messages.obligations.model import ObligationState
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, CommandSteps, ReadQuery, StepRequest, Store, WriteSet
from molecule_core.store.timers import TIMERS_KEY, cancel_timer, set_timer
from molecule_core.wire.schemas.template_metrics import CanaryTrial, TemplateMetrics, TemplateVersionMetrics, TrialArm

CANARY_TIMER = "canary"
"""Kind of the timer that evaluates a trial; its key is `organisation/template`."""
GOOD_OUTCOMES = (ObligationState.ANSWERED, ObligationState.DECLINED)
# Messages per version that metrics are computed from: 50 ms on SQLite.
_MAX_COUNTED = 10_000


class OutcomeSource(Protocol):
    """An obligation for a message that was sent with a template version, or without any."""

    @property
    def org_id(self) -> str:
        """Return the organisation of the agent."""

    @property
    def workspace_id(self) -> str:
        """Return the workspace of the agent."""

    @property
    def template(self) -> str | None:
        """Return the template id."""

    @property
    def version(self) -> int | None:
        """Return the template version."""


def first_outcome(state: str, outside_at: int | None, overdue_at: int | None) -> str | None:
    """Return the first outcome of a message that wanted an answer; None if there is none yet.

    An overdue or outside answer counts as missed, even if the answer came later."""
    if overdue_at is not None:
        return ObligationState.OVERDUE
    if outside_at is not None:
        return ObligationState.ANSWERED_OUTSIDE
    return state if state in GOOD_OUTCOMES else None


class CanaryMonitor:
    """Counts outcomes and evaluates trials."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        templates: InstructionReader,
        trials: CanaryWriter,
        meter: InstructionMeter,
        *,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._store = store
        self._org = org
        self._templates = templates
        self._trials = trials
        self._meter = meter
        self._clock = clock
        self._limits = limits
        self._concluded: set[tuple[str, str, int]] = set()
        """Trials that were fully evaluated, with their start time."""

    # -- command steps for the writers of outcomes ---------------------------------------------------------------------

    def record_outcome(self, source: OutcomeSource, outcome: str) -> WriteSet[None]:
        """Count the first outcome of a message; schedule an evaluation if a canary was used."""
        workspace, template = self._org.workspace(source.workspace_id), source.template
        self._meter.count_outcome("" if workspace is None else workspace.runtime, template, outcome)
        choice = None if template is None else self._templates.own_active_version(source.org_id, template)
        if choice is None or choice.canary is None or choice.canary != source.version:
            return WriteSet(None)
        if (choice.org_id, choice.id, choice.since) in self._concluded:
            return WriteSet(None)
        timer_write = set_timer(CANARY_TIMER, f"{choice.org_id}/{choice.id}", self._clock.now())
        return WriteSet(None, [timer_write], notify=(TIMERS_KEY,))

    # -- trials --------------------------------------------------------------------------------------------------------

    async def evaluate_trial(self, key: str) -> None:
        """Evaluate a trial, and roll back the canary if it does significantly worse."""
        org_id, _, template_id = key.partition("/")

        def decide() -> CommandSteps[None]:
            timer_cancelled = WriteSet(None, [cancel_timer(CANARY_TIMER, key)])
            choice = self._templates.own_active_version(org_id, template_id)
            if choice is None or choice.removed_at is not None or choice.canary is None:
                return timer_cancelled
            base_score, canary_score = yield from self._load_scores(choice)
            if canary_score.outcomes > MAX_CANARY_OUTCOMES:
                self._concluded.add((org_id, template_id, choice.since))
            if not is_significantly_worse(base_score, canary_score, min_outcomes=self._limits.canary_outcomes):
                return timer_cancelled
            self._meter.count_rollback(template_id)
            return self._trials.roll_back(choice, base_score, canary_score) + timer_cancelled

        # Exclusive: an outcome in the same group would not be counted, and its timer would be cancelled.
        await self._store.run(Command(org_id, template_keys(org_id), decide, exclusive=True))

    def _load_scores(self, choice: ActiveVersion) -> Generator[StepRequest, Any, tuple[OutcomeCount, OutcomeCount]]:
        """Read the outcomes of the active version and of the canary since the trial began."""
        base_score = yield ReadQuery("outcomes_since", self._score_query(choice, choice.version, MAX_BASE_OUTCOMES))
        canary_score = yield ReadQuery(
            "outcomes_since", self._score_query(choice, choice.canary or 0, MAX_CANARY_OUTCOMES + 1)
        )
        return OutcomeCount(*base_score[0]), OutcomeCount(*canary_score[0])

    def _score_query(self, choice: ActiveVersion, version: int, count: int) -> dict[str, Any]:
        found = self._templates.find_version(choice.org_id, choice.id, version)
        owner = choice.org_id if found is None else found.org_id
        return {
            "org_id": choice.org_id,
            "template": choice.id,
            "version": version,
            "template_org": owner,
            "since": choice.since,
            "count": count,
        }

    # -- metrics -------------------------------------------------------------------------------------------------------

    async def template_metrics(self, org_id: str, template_id: str) -> TemplateMetrics:
        """Return message outcomes of an organisation by template version. Raises NotFound."""
        choice = self._templates.active_version(org_id, template_id)
        if choice is None:
            raise NotFound(what="instruction template")
        versions = self._templates.list_versions(org_id, template_id)
        batch = [
            {
                "org_id": org_id,
                "template": template_id,
                "version": each.version,
                "template_org": each.org_id,
                "count": _MAX_COUNTED,
            }
            for each in versions
        ]
        found = await self._store.rows_of_each("figures_of_version", batch)
        metrics = [_version_metrics(each, *rows[0]) for each, rows in zip(versions, found, strict=True)]
        in_use = (choice.version, choice.canary)
        listed = [each for each in metrics if each.deliveries or each.version in in_use]
        return TemplateMetrics(template_id, choice.version, listed, await self._trial_metrics(choice))

    async def _trial_metrics(self, choice: ActiveVersion) -> CanaryTrial | None:
        if choice.canary is None:
            return None
        queries = [
            self._score_query(choice, choice.version, MAX_BASE_OUTCOMES),
            self._score_query(choice, choice.canary, MAX_CANARY_OUTCOMES + 1),
        ]
        (base_row,), (canary_row,) = await self._store.rows_of_each("outcomes_since", queries)
        base_score, canary_score = OutcomeCount(*base_row), OutcomeCount(*canary_row)
        needed = alarm_threshold(canary_score.outcomes, self._limits.canary_outcomes)
        return CanaryTrial(
            since=to_rfc3339(choice.since),
            percent=choice.percent,
            base=_to_side(choice.version, base_score),
            canary=_to_side(choice.canary, canary_score),
            chance=float(p_value(base_score, canary_score)),
            needs=None if needed is None else float(needed),
        )


def _to_side(version: int, score: OutcomeCount) -> TrialArm:
    return TrialArm(version, score.good, score.missed, score.rate)


def _version_metrics(
    template: Template,
    deliveries: int,
    answered: int,
    declined: int,
    outside: int,
    overdue: int,
    still_open: int,
    tokens: int,
) -> TemplateVersionMetrics:
    rate = OutcomeCount(answered + declined, outside + overdue).rate
    return TemplateVersionMetrics(
        template.version, deliveries, answered, declined, outside, overdue, still_open, rate, tokens
    )
