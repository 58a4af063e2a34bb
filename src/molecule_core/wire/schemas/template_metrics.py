"""Outcomes of messages delivered with instructions, by template version."""

from msgspec import Struct


class TemplateVersionMetrics(Struct, frozen=True):
    """Metrics of one template version.

    `deliveries`: the newest retained messages that required an answer. Each is counted once by its outcome: overdue
    takes precedence over the others, and answered_outside over answered. `rate`: answered and declined as a share of
    all known outcomes. `tokens`: estimated total of the instructions."""

    version: int
    deliveries: int
    answered: int
    declined: int
    answered_outside: int
    overdue: int
    open: int
    rate: float | None
    tokens: int


class TrialArm(Struct, frozen=True):
    """One of the two versions in a trial: its number of good and missed outcomes, and the share of good ones."""

    version: int
    good: int
    missed: int
    rate: float | None


class CanaryTrial(Struct, frozen=True):
    """Comparison of a canary with the version in force, since it began.

    `chance`: probability that an equally good version would look this bad; `needs`: the canary is rolled back at
    this chance or below; null: not now, whatever the outcomes."""

    since: str
    percent: int
    base: TrialArm
    canary: TrialArm
    chance: float
    needs: float | None


class TemplateMetrics(Struct, frozen=True):
    """Metrics of all versions of a template that were ever used, newest first, and the running trial."""

    template_id: str
    version: int
    versions: list[TemplateVersionMetrics]
    trial: CanaryTrial | None


class TemplateRollout(Struct, frozen=True):
    """The version of a template in force, and the `canary` version that gets `percent` of the messages."""

    template_id: str
    version: int
    canary: int | None
    percent: int
    since: str
