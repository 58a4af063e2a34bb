"""What the tests of measuring do: templates of a test's own, messages one after the other, the time between them."""

from typing import Any, NamedTuple

from molecule_core.client.api import ApiClient
from molecule_core.instructions.rules import CLAUDE_CODE_TEMPLATE
from testing.clocks import FakeClock
from testing.message_chains import events_of
from testing.running_server import Running
from tests.instructions.untrained_agents import Agent, Heard

# Names the tool and what to give it, in other words than the template of Molecule.
AS_GOOD = {
    "reply": 'An answer reaches its reader by {{ reply_tool }}(peer_id="{{ peer_id }}", text=…) alone.',
    "compact": 'By {{ reply_tool }}(peer_id="{{ peer_id }}", text=…) alone.',
}
# Friendly, and of no use: an agent that knows nothing else answers into its terminal.
WORSE = {
    "reply": "Somebody has written to you ({{ kind }}). Please be so kind as to answer soon, and be brief.",
    "compact": "Somebody has written to you. Please answer.",
}
# Between two messages: four of them, and what had no answer has been reminded of and is overdue.
BETWEEN_SECONDS = 60


class TemplateTrial(NamedTuple):
    """A server, a person who writes and owns the organisation, and the time."""

    server: Running
    owner: ApiClient
    clock: FakeClock

    @property
    def org_id(self) -> str:
        """The only organisation."""
        return self.server.server.registry.orgs()[0].id

    @property
    def path(self) -> str:
        """The template of Claude Code, as this organisation has it."""
        return f"/orgs/{self.org_id}/instruction-templates/{CLAUDE_CODE_TEMPLATE}"

    async def save(self, blocks: dict[str, str]) -> int:
        """A new version of the template, which is not in force; its number."""
        body = {"parts": {"reply_tool": "reply_to_workspace", "blocks": blocks}, "in_force": False}
        saved = await self.owner.call("PUT", self.path, body=body)
        return int(saved["template"]["version"])

    async def share(self, version: int, percent: int) -> Any:
        """Gives a version its share."""
        return await self.owner.post(f"{self.path}/canary", {"version": version, "percent": percent})

    async def figures(self) -> Any:
        """What became of messages."""
        return await self.owner.get(f"{self.path}/figures")

    async def version(self, version: int) -> Any:
        """The figures of one version."""
        return next(each for each in (await self.figures())["versions"] if each["version"] == version)

    async def ask(self, agent: Agent, number: int) -> list[Heard]:
        """A message of the person, and the agent's turn."""
        await self.owner.send(agent.seat.id, f"question {number}")
        return await agent.turn()

    async def pass_time(self, agent: Agent, seconds: float = BETWEEN_SECONDS) -> list[Heard]:
        """Time passes, and the agent looks whether it is reminded of something."""
        await agent.seat.api.post("/registry/heartbeat", {"workspace_id": agent.seat.id})
        await self.clock.advance(seconds)
        return await agent.turn()

    async def told(self, event: str) -> list[dict[str, Any]]:
        """The payloads of an event so far."""
        return await events_of(self.server, self.org_id, event)
