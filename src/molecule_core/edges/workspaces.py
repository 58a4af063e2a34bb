"""Workspaces for people: make, read, change, remove, and the tree."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from molecule_core.access.model import Kind, Role
from molecule_core.edges.query import AFTER, CONFIRM, LIMIT, ORG, TYPED, asks, flag, plain_text, whole_number
from molecule_core.edges.routes import EVERYBODY, PEOPLE, Answer, Call, Reach, Route, Who, json_answer
from molecule_core.ground.clock import rfc3339
from molecule_core.ground.errors import CursorGone, InvalidField, MayNotTalk, NotFound, WorkspaceRemoved
from molecule_core.ground.limits import MOST_REPLY_SECONDS
from molecule_core.ground.net import Fetcher
from molecule_core.org import rules
from molecule_core.org.model import POLL, PUSH, NewWorkspace, Status, Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.writer import OrgWriter
from molecule_core.wire.events import WorkspaceView

_MOST_TIERS = 9
_MOST_TASKS = 10_000
Shape = Literal["json", "xml", "both"]
ReplySeconds = Annotated[int, msgspec.Meta(ge=0, le=MOST_REPLY_SECONDS)]


class Point(Struct):
    """Where a workspace stands on the canvas."""

    x: float = 0.0
    y: float = 0.0


class Create(Struct):
    """A seat that is to be made. Without a url it polls; with one, its messages are pushed there."""

    name: str
    org_id: str | None = None
    parent_id: str | None = None
    role: str | None = None
    runtime: str | None = None
    external: bool = False
    url: str | None = None
    delivery_mode: str | None = None
    tier: int = 1
    max_concurrent_tasks: int = 1
    instruction_template_id: str | None = None
    instruction_compact: bool = False
    instruction_shape: Shape | None = None
    reply_seconds: ReplySeconds | None = None
    send_drafts: bool = False
    canvas: Point | None = None
    key: str | None = None


class Change(Struct, forbid_unknown_fields=True):
    """What may change about a seat; what is left out stays. `parent_id` moves it and all below it; null: to the top."""

    parent_id: str | UnsetType | None = UNSET
    name: str | UnsetType = UNSET
    role: str | UnsetType | None = UNSET
    runtime: str | UnsetType = UNSET
    tier: int | UnsetType = UNSET
    max_concurrent_tasks: int | UnsetType = UNSET
    instruction_template_id: str | UnsetType | None = UNSET
    instruction_compact: bool | UnsetType = UNSET
    instruction_shape: Shape | UnsetType | None = UNSET
    reply_seconds: ReplySeconds | UnsetType | None = UNSET
    send_drafts: bool | UnsetType = UNSET
    external: bool | UnsetType = UNSET
    delivery_mode: str | UnsetType = UNSET
    url: str | UnsetType | None = UNSET
    key: str | UnsetType | None = UNSET
    collapsed: bool | UnsetType = UNSET
    x: float | UnsetType = UNSET
    y: float | UnsetType = UNSET


class TreeNode(Struct):
    """A workspace and those below it."""

    id: str
    name: str
    role: str | None
    status: str
    children: list["TreeNode"]


class State(Struct, frozen=True):
    """Whether an agent is to go on; `deleted`, with 404, says that it is to end."""

    workspace_id: str
    status: str
    paused: bool
    deleted: bool


class WorkspaceEdge:
    """The routes of workspaces and their tree."""

    def __init__(self, writer: OrgWriter, org: OrgReader, fetcher: Fetcher, *, public_url: str) -> None:
        self._fetcher = fetcher
        self._writer = writer
        self._org = org
        self._public_url = public_url

    def routes(self) -> list[Route]:
        """The rows for the table."""
        one = "/workspaces/{id}"
        operator = Who(PEOPLE, Reach.NONE, Role.OPERATOR)
        operator_of = Who(PEOPLE, Reach.OWN, Role.OPERATOR)
        view_talk = Who(EVERYBODY, Reach.TALK)
        view_own = Who(EVERYBODY, Reach.OWN)
        paged = asks(LIMIT, AFTER, ORG)
        removed = asks(flag("include_removed", "Whether to show it if it is removed."))
        confirmed = asks(CONFIRM, TYPED)
        return [
            Route("POST", "/workspaces", self.create, operator, "Make a seat", Create, status=201),
            Route("GET", "/workspaces", self.list, Who(PEOPLE), "All seats", None, list[WorkspaceView], query=paged),
            Route("GET", one, self.get, view_talk, "One seat", None, WorkspaceView, removed_too=True, query=removed),
            Route("PATCH", one, self.change, operator_of, "Change a seat", Change, WorkspaceView),
            Route(
                "DELETE",
                one,
                self.remove,
                operator_of,
                "Remove a seat and all below it (?confirm=true)",
                query=confirmed,
            ),
            Route(
                "GET",
                f"{one}/state",
                self.state,
                view_own,
                "Whether to go on",
                None,
                State,
                removed_too=True,
                gone=State,
            ),
            Route("GET", "/orgs/{org_id}/tree", self.tree, Who(PEOPLE), "The org tree", None, list[TreeNode]),
        ]

    async def create(self, call: Call) -> Answer:
        """A new seat, with its token: the only time that it is shown."""
        asked = call.read(Create)
        mode = asked.delivery_mode or (PUSH if asked.url else POLL)
        await self._check_url(mode, asked.url)
        check_numbers(asked.tier, asked.max_concurrent_tasks)
        place = asked.canvas or Point()
        new = NewWorkspace(
            name=asked.name,
            parent_id=asked.parent_id,
            role=asked.role,
            runtime=asked.runtime or "generic-mcp",
            external=asked.external,
            delivery_mode=mode,
            url=asked.url,
            tier=asked.tier,
            max_concurrent_tasks=asked.max_concurrent_tasks,
            instruction_template_id=asked.instruction_template_id,
            instruction_compact=asked.instruction_compact,
            instruction_shape=asked.instruction_shape,
            reply_seconds=asked.reply_seconds,
            send_drafts=asked.send_drafts,
            x=place.x,
            y=place.y,
            key=asked.key,
        )
        workspace, token = await self._writer.create(self._org_for(call, asked.org_id), new)
        return json_answer(
            {
                "id": workspace.id,
                "name": workspace.name,
                "org_id": workspace.org_id,
                "external": workspace.external,
                "status": workspace.status.value,
                "delivery_mode": workspace.delivery_mode,
                "connection": connection(workspace.id, token, self._public_url, mode=workspace.delivery_mode),
            },
            201,
        )

    async def _check_url(self, mode: str | None, url: str | None) -> None:
        """A url that is to be kept is one that the server may ask. Raises UnsafeUrl, FetchFailed."""
        if url and mode != POLL:
            await self._fetcher.check(url)

    def _org_for(self, call: Call, org_id: str | None) -> str:
        """The organisation a new seat belongs to: the person's own; for the admin, the named or the first one."""
        if call.by.kind is Kind.PERSON:
            if org_id not in (None, call.by.org_id):
                raise NotFound(what="organisation")
            return call.by.org_id
        if org_id is None:
            return self._org.orgs()[0].id
        if self._org.find_org(org_id) is None:
            raise NotFound(what="organisation")
        return org_id

    async def list(self, call: Call) -> Answer:
        """All living seats that the caller may see, oldest first; for the admin, of one organisation if asked. With
        `limit` so many of one organisation, behind the seat that `after` names."""
        query = call.query()
        own = call.by.org_id if call.by.kind is Kind.PERSON else None
        org_id = own or plain_text(query, "org_id")
        count = whole_number(query, "limit", least=1, most=call.limits.page_rows)
        if count is None:
            return Answer(self._org.whole_list(org_id))
        try:
            return Answer(self._org.page_list(org_id or self._org.orgs()[0].id, plain_text(query, "after"), count))
        except LookupError:
            raise CursorGone(name="after") from None

    def _view(self, workspace: Workspace) -> WorkspaceView:
        return self._org.view(workspace)

    async def get(self, call: Call) -> Answer:
        """One seat; a removed one only if asked for."""
        if call.by.kind is Kind.WORKSPACE:
            own = self._org.workspace(call.by.id)
            if own is not None and not rules.related(self._org, own, call.target):
                raise MayNotTalk
        if call.target.removed and call.query().get("include_removed") != "true":
            raise WorkspaceRemoved(id=call.target.id, removed_at=rfc3339(call.target.removed_at or 0))
        return json_answer(self._view(call.target))  # control: workspace-status

    async def change(self, call: Call) -> Answer:
        """Changes what people set about a seat."""
        asked = call.read(Change)
        fields = {name: value for name, value in msgspec.structs.asdict(asked).items() if value is not UNSET}
        check_numbers(fields.get("tier", 1), fields.get("max_concurrent_tasks", 1))
        for name in ("delivery_mode", "url"):  # empty, as older clients have it, says nothing
            if fields.get(name) == "":
                del fields[name]
        await self._check_url(fields.get("delivery_mode"), fields.get("url"))
        return json_answer(self._view(await self._writer.change(call.target.id, fields)))

    async def remove(self, call: Call) -> Answer:
        """Removes a seat and all below it. With `name` only if that is its name now: what a person typed to be sure."""
        query = call.query()
        gone = await self._writer.remove(
            call.target.id, confirmed=query.get("confirm") == "true", typed=plain_text(query, "name")
        )
        return json_answer({"status": "removed", "removed": [{"id": each.id, "name": each.name} for each in gone]})

    async def state(self, call: Call) -> Answer:
        """What an agent asks before it goes on working."""
        workspace = call.target
        paused = workspace.status is Status.PAUSED
        state = State(workspace.id, workspace.status.value, paused, workspace.removed)
        return json_answer(state, 404 if workspace.removed else 200)

    async def tree(self, call: Call) -> Answer:
        """The org tree from its roots."""
        roots = self._org.roots(call.params["org_id"])
        return json_answer([self._node(root) for root in roots])

    def _node(self, workspace: Workspace) -> TreeNode:
        below = [self._node(child) for child in self._org.children(workspace)]
        return TreeNode(workspace.id, workspace.name, workspace.role, workspace.status.value, below)


def check_numbers(tier: Any, max_concurrent_tasks: Any) -> None:
    """Raises InvalidField unless both are plausible."""
    if not 0 <= tier <= _MOST_TIERS:
        raise InvalidField(reason=f"tier must lie between 0 and {_MOST_TIERS}")
    if not 1 <= max_concurrent_tasks <= _MOST_TASKS:
        raise InvalidField(reason=f"max_concurrent_tasks must lie between 1 and {_MOST_TASKS}")


def connection(workspace_id: str, token: str | None, url: str, *, mode: str = POLL) -> dict[str, str]:
    """All that an agent needs to connect, with commands to paste. The token is in here and nowhere else; without one,
    the commands have a place for it.

    The commands keep it in a file or the environment: process arguments are readable by others on a machine."""
    secret = token or "YOUR-TOKEN"
    register = f'{{"id":"{workspace_id}","delivery_mode":"{mode}","agent_card":{{"name":"My agent"}}}}'
    return {
        "workspace_id": workspace_id,
        "platform_url": url,
        **({} if token is None else {"auth_token": token}),
        "registry_endpoint": f"{url}/registry/register",
        "heartbeat_endpoint": f"{url}/registry/heartbeat",
        "curl": (
            f"(umask 077; echo 'header = \"Authorization: Bearer {secret}\"' > molecule.curl)\n"
            f"curl -sS -K molecule.curl {url}/registry/register -d '{register}'\n"
            f"curl -sS -K molecule.curl '{url}/workspaces/{workspace_id}/activity?claim=60&wait=25'"
        ),
        "python": (
            f"MOLECULE_URL={url} MOLECULE_WORKSPACE_ID={workspace_id} MOLECULE_WORKSPACE_TOKEN={secret} "
            "python examples/agent.py"
        ),
    }
