"""Teams and the standing of seats: expand, collapse, pause, resume, hibernate, abilities."""

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict

from molecule_core.access.model import Role
from molecule_core.edges.query import CONFIRM, TYPED, asks, plain_text
from molecule_core.edges.routes import PEOPLE, Answer, Call, Reach, Route, Who, json_answer
from molecule_core.edges.workspaces import ReplySeconds, Shape, check_numbers, connection
from molecule_core.ground.errors import InvalidField
from molecule_core.org.model import Act, NewWorkspace, Team, Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.writer import OrgWriter
from molecule_core.wire.events import WorkspaceView


class TeamMember(Struct, forbid_unknown_fields=True):
    """A seat of a team, and those below it."""

    name: str
    role: str | None = None
    runtime: str | None = None
    external: bool = False
    tier: int = 1
    max_concurrent_tasks: int = 1
    instruction_template_id: str | None = None
    instruction_compact: bool = False
    instruction_shape: Shape | None = None
    reply_seconds: ReplySeconds | None = None
    send_drafts: bool = False
    key: str | None = None
    children: list["TeamMember"] = []


class TeamDefinition(Struct, forbid_unknown_fields=True):
    """A team that is to be made below a seat, which then is its coordinator."""

    children: list[TeamMember]


class Abilities(Struct, forbid_unknown_fields=True):
    """What a seat may do beside talking to its peers; what is left out stays."""

    broadcast_enabled: bool | UnsetType = UNSET
    talk_to_user_enabled: bool | UnsetType = UNSET


class TreeEdge:
    """The routes that change many seats at once, or how one stands."""

    def __init__(self, writer: OrgWriter, org: OrgReader, *, public_url: str) -> None:
        self._writer = writer
        self._org = org
        self._public_url = public_url

    def routes(self) -> list[Route]:
        """The rows for the table."""
        one = "/workspaces/{id}"
        operator_of = Who(PEOPLE, Reach.OWN, Role.OPERATOR)
        owner_of = Who(PEOPLE, Reach.OWN, Role.OWNER)
        abilities = f"{one}/abilities"
        confirmed = asks(CONFIRM, TYPED)
        return [
            Route("POST", f"{one}/expand", self.expand, operator_of, "Make a team below a seat", TeamDefinition),
            Route(
                "POST",
                f"{one}/collapse",
                self.collapse,
                operator_of,
                "Remove all below a seat (?confirm=true)",
                query=confirmed,
            ),
            Route("POST", f"{one}/pause", self.pause, operator_of, "Hand nothing over", None, WorkspaceView),
            Route("POST", f"{one}/resume", self.resume, operator_of, "Go on", None, WorkspaceView),
            Route("POST", f"{one}/hibernate", self.hibernate, operator_of, "Let it sleep", None, WorkspaceView),
            Route("PATCH", abilities, self.abilities, owner_of, "What a seat may do", Abilities, WorkspaceView),
        ]

    async def expand(self, call: Call) -> Answer:
        """A whole team, or nothing; its tokens are shown this once."""
        team = tuple(_team(each) for each in call.read(TeamDefinition).children)
        made = await self._writer.expand(call.target.id, team)
        children = [
            {
                "id": each.id,
                "name": each.name,
                "role": each.role,
                "parent_id": each.parent_id,
                "connection": connection(each.id, token, self._public_url),
            }
            for each, token in made
        ]
        return json_answer({"status": "expanded", "children": children})

    async def collapse(self, call: Call) -> Answer:
        """Removes all below a seat. With `name` only if that is its name now: what a person typed to be sure."""
        query = call.query()
        confirmed, typed = query.get("confirm") == "true", plain_text(query, "name")
        gone = await self._writer.collapse(call.target.id, confirmed=confirmed, typed=typed)
        names, ids = [each.name for each in gone], [each.id for each in gone]
        return json_answer({"status": "collapsed", "removed": names, "removed_ids": ids})

    async def pause(self, call: Call) -> Answer:
        """Messages wait, whatever its agent says, until it is resumed."""
        return await self._act(call, Act.PAUSE)

    async def resume(self, call: Call) -> Answer:
        """It stands again as its agent's last heartbeat says."""
        return await self._act(call, Act.RESUME)

    async def hibernate(self, call: Call) -> Answer:
        """Its agent may stop; it wakes when it registers again, or is resumed."""
        return await self._act(call, Act.HIBERNATE)

    async def _act(self, call: Call, act: Act) -> Answer:
        return self._shown(await self._writer.act(call.target.id, act))

    async def abilities(self, call: Call) -> Answer:
        """Switches broadcasting and talking to the user on or off."""
        asked = asdict(call.read(Abilities))
        fields = {name: value for name, value in asked.items() if value is not UNSET}
        if not fields:
            raise InvalidField(reason="name broadcast_enabled, talk_to_user_enabled or both")
        return self._shown(await self._writer.change(call.target.id, fields))

    def _shown(self, workspace: Workspace) -> Answer:
        return json_answer(self._org.view(workspace))


def _team(member: TeamMember) -> Team:
    check_numbers(member.tier, member.max_concurrent_tasks)
    said = {name: value for name, value in asdict(member).items() if name not in ("children", "runtime")}
    seat = NewWorkspace(**said, runtime=member.runtime or "generic-mcp")
    return Team(seat, tuple(_team(each) for each in member.children))
