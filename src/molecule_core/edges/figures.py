"""What became of messages by version of a template, and the share that a version on trial gets."""

from typing import Annotated

from msgspec import Meta, Struct

from molecule_core.access.model import Role
from molecule_core.edges.routes import PEOPLE, Answer, Call, Reach, Route, Who, json_answer
from molecule_core.ground.clock import rfc3339
from molecule_core.instructions.model import InForce
from molecule_core.instructions.trials import EVERYTHING, Trials
from molecule_core.messages.measuring import Measuring
from molecule_core.wire.figures import TemplateFigures, TemplateShare


class Canary(Struct, forbid_unknown_fields=True):
    """Which version gets how many of a hundred messages: 0 ends its trial, 100 puts it in force."""

    version: Annotated[int, Meta(ge=1, lt=1 << 31)]
    percent: Annotated[int, Meta(ge=0, le=EVERYTHING)]


class FigureEdge:
    """The routes of figures and canaries."""

    def __init__(self, measuring: Measuring, trials: Trials) -> None:
        self._measuring = measuring
        self._trials = trials

    def routes(self) -> list[Route]:
        """The rows for the table."""
        own = Who(PEOPLE, Reach.NONE, Role.OWNER)
        one = "/orgs/{org_id}/instruction-templates/{template_id}"
        what, share = "What became of messages, by version of a template", "Give a version a share of the messages"
        return [
            Route("GET", f"{one}/figures", self.figures, own, what, None, TemplateFigures),
            Route("POST", f"{one}/canary", self.canary, own, share, Canary, TemplateShare),
        ]

    async def figures(self, call: Call) -> Answer:
        """Of the messages that are still kept, of each version the newest 10,000."""
        return json_answer(await self._measuring.figures(call.params["org_id"], _template_of(call)))

    async def canary(self, call: Call) -> Answer:
        """A canary that does worse is ended by itself. What is compared is counted from the last change on."""
        asked = call.read(Canary)
        by = f"{call.by.kind.value}:{call.by.id}"
        choice = await self._trials.share(call.params["org_id"], _template_of(call), asked.version, asked.percent, by)
        return json_answer(_share(choice))


def _template_of(call: Call) -> str:
    return call.named("template_id", "instruction template")


def _share(choice: InForce) -> TemplateShare:
    return TemplateShare(choice.id, choice.version, choice.canary, choice.percent, rfc3339(choice.since))
