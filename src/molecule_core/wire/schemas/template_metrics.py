"""What became of the messages that agents were told how to answer, by version of the template that told them."""

from msgspec import Struct


class TemplateVersionMetrics(Struct, frozen=True):
    """One version of a template: its `deliveries` (messages that wanted an answer, the newest that are still kept) by
    what became of them, each counted once: what was overdue is nothing else, what was answered elsewhere first was not
    answered. `rate`: answered and declined, of all whose outcome is known. `tokens`: of the instructions, in all,
    estimated."""

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
    """One of two versions that share the messages: how many of its outcomes were good, and which part of them."""

    version: int
    good: int
    missed: int
    rate: float | None


class CanaryTrial(Struct, frozen=True):
    """A canary beside the version in force, since it began. `chance`: how likely a version that is as good would look
    as bad; `needs`: it is rolled back at this chance, or below; null: not at this moment, whatever happened."""

    since: str
    percent: int
    base: TrialArm
    canary: TrialArm
    chance: float
    needs: float | None


class TemplateMetrics(Struct, frozen=True):
    """All versions of a template that were ever told with, newest first, and the trial that is under way."""

    template_id: str
    version: int
    versions: list[TemplateVersionMetrics]
    trial: CanaryTrial | None


class TemplateRollout(Struct, frozen=True):
    """Which version of a template is in force since when, and which other one gets `percent` of the messages."""

    template_id: str
    version: int
    canary: int | None
    percent: int
    since: str
