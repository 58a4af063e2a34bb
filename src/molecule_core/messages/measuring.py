"""What became of the messages that each version of a template was told with; the end of a canary that does worse.

An outcome of a canary sets a timer in its own transaction, and nothing else: whoever answers waits for no counting, and
where no canary is on trial it costs a look into memory. The timer's command counts, and ends the trial.

Above: edges (figures), obligations and silence of this slice (outcomes). Below: the trials of instructions, store.
"""

from collections.abc import Generator
from typing import Any, Protocol

from molecule_core.ground.clock import Clock, rfc3339
from molecule_core.ground.errors import NotFound
from molecule_core.ground.limits import Limits
from molecule_core.ground.metrics import InstructionMeter
from molecule_core.instructions.measuring import (
    LOOKED_AT,
    LOOKED_AT_BESIDE,
    Score,
    allowed,
    chance_of,
    is_worse,
)
from molecule_core.instructions.model import InForce, Template
from molecule_core.instructions.reader import InstructionReader
from molecule_core.instructions.trials import Trials, template_keys
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, Decision, Read, Step, Store, WriteSet
from molecule_core.store.queries import Params
from molecule_core.store.timers import TIMERS, no_timer, timer
from molecule_core.wire.figures import Side, TemplateFigures, Trial, VersionFigures

CANARY = "canary"
"""The kind of timer that asks for a look at a trial; its key is the organisation and the template."""
ANSWERED, DECLINED, ANSWERED_OUTSIDE, OVERDUE = "answered", "declined", "answered_outside", "overdue"
GOOD = (ANSWERED, DECLINED)
# Messages of one version that figures are made of: 50 ms on SQLite.
_COUNTED = 10_000


class Owed(Protocol):
    """What is owed for a message that was told with a version of a template, or with none."""

    @property
    def org_id(self) -> str:
        """Whose agent owes it."""

    @property
    def workspace_id(self) -> str:
        """Which agent."""

    @property
    def template(self) -> str | None:
        """The template's id."""

    @property
    def version(self) -> int | None:
        """And its version."""


Wish = tuple[list[tuple[str, Params]], tuple[str, ...]]
"""Statements to be written with an outcome, and who is to be rung."""
_NOTHING: Wish = ([], ())


def outcome_of(state: str, outside_at: int | None, overdue_at: int | None) -> str | None:
    """What became of a message that wanted an answer; None: nothing yet. What was overdue, or answered elsewhere, was
    missed, also if somebody brought the answer later."""
    if overdue_at is not None:
        return OVERDUE
    if outside_at is not None:
        return ANSWERED_OUTSIDE
    return state if state in GOOD else None


class Measuring:
    """Counts outcomes, and looks at trials when they have a new one."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        templates: InstructionReader,
        trials: Trials,
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
        self._stood: set[tuple[str, str, int]] = set()
        """Trials that have had all the looks there are, with their beginning."""

    # -- steps for those who write outcomes down -----------------------------------------------------------------------

    def came(self, owed: Owed, outcome: str) -> Wish:
        """A message has its first outcome: counts it, and asks for a look at the trial if a canary told it."""
        seat, template = self._org.workspace(owed.workspace_id), owed.template
        self._meter.came_to("" if seat is None else seat.runtime, template, outcome)
        choice = None if template is None else self._templates.own(owed.org_id, template)
        if choice is None or choice.canary is None or choice.canary != owed.version:
            return _NOTHING
        if (choice.org_id, choice.id, choice.since) in self._stood:
            return _NOTHING
        return [timer(CANARY, f"{choice.org_id}/{choice.id}", self._clock.now())], (TIMERS,)

    # -- trials --------------------------------------------------------------------------------------------------------

    async def on_due(self, key: str) -> None:
        """Looks at a trial, and ends it if the canary does worse."""
        org_id, _, template_id = key.partition("/")

        def decide() -> Decision[None]:
            done: list[tuple[str, Params]] = [no_timer(CANARY, key)]
            choice = self._templates.own(org_id, template_id)
            if choice is None or choice.removed_at is not None or choice.canary is None:
                return WriteSet(None, done)
            old, new = yield from self._scores(choice)
            if new.outcomes > LOOKED_AT:
                self._stood.add((org_id, template_id, choice.since))
            if not is_worse(old, new, least=self._limits.canary_outcomes):
                return WriteSet(None, done)
            ended = self._trials.rolled_back(choice, old, new)
            ended.writes += done
            self._meter.rolled_back(template_id)
            return ended

        # Alone: an outcome of the same group would be counted by nobody, and its timer taken away.
        await self._store.run(Command(org_id, template_keys(org_id), decide, alone=True))

    def _scores(self, choice: InForce) -> Generator[Step, Any, tuple[Score, Score]]:
        """Of the version in force and of the canary, since the trial began."""
        old = yield Read("outcomes_since", self._wish(choice, choice.version, LOOKED_AT_BESIDE))
        new = yield Read("outcomes_since", self._wish(choice, choice.canary or 0, LOOKED_AT + 1))
        return Score(*old[0]), Score(*new[0])

    def _wish(self, choice: InForce, version: int, count: int) -> dict[str, Any]:
        found = self._templates.version(choice.org_id, choice.id, version)
        owner = choice.org_id if found is None else found.org_id
        return {
            "org_id": choice.org_id,
            "template": choice.id,
            "version": version,
            "template_org": owner,
            "since": choice.since,
            "count": count,
        }

    # -- figures -------------------------------------------------------------------------------------------------------

    async def figures(self, org_id: str, template_id: str) -> TemplateFigures:
        """What became of the messages of an organisation, by version of a template. Raises NotFound."""
        choice = self._templates.choice(org_id, template_id)
        if choice is None:
            raise NotFound(what="instruction template")
        versions = self._templates.versions(org_id, template_id)
        batch = [
            {
                "org_id": org_id,
                "template": template_id,
                "version": each.version,
                "template_org": each.org_id,
                "count": _COUNTED,
            }
            for each in versions
        ]
        found = await self._store.rows_of_each("figures_of_version", batch)
        told = [_version(each, *rows[0]) for each, rows in zip(versions, found, strict=True)]
        in_use = (choice.version, choice.canary)
        shown = [each for each in told if each.deliveries or each.version in in_use]
        return TemplateFigures(template_id, choice.version, shown, await self._trial(choice))

    async def _trial(self, choice: InForce) -> Trial | None:
        if choice.canary is None:
            return None
        wishes = [
            self._wish(choice, choice.version, LOOKED_AT_BESIDE),
            self._wish(choice, choice.canary, LOOKED_AT + 1),
        ]
        (base,), (tried,) = await self._store.rows_of_each("outcomes_since", wishes)
        old, new = Score(*base), Score(*tried)
        needed = allowed(new.outcomes, self._limits.canary_outcomes)
        return Trial(
            since=rfc3339(choice.since),
            percent=choice.percent,
            base=_side(choice.version, old),
            canary=_side(choice.canary, new),
            chance=float(chance_of(old, new)),
            needs=None if needed is None else float(needed),
        )


def _side(version: int, score: Score) -> Side:
    return Side(version, score.good, score.missed, score.rate)


def _version(
    template: Template,
    deliveries: int,
    answered: int,
    declined: int,
    outside: int,
    overdue: int,
    still: int,
    tokens: int,
) -> VersionFigures:
    rate = Score(answered + declined, outside + overdue).rate
    return VersionFigures(template.version, deliveries, answered, declined, outside, overdue, still, rate, tokens)
