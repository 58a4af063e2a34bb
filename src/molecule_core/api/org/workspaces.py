"""Routes of workspaces for people: create, read, change, remove, and the tree."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from molecule_core.a2a_agents import rules as rules_of_agents
from molecule_core.a2a_agents.model import A2ACredential, A2ACredentialKind, CardKeys, FetchedCard
from molecule_core.a2a_agents.reader import A2AAgentReader
from molecule_core.a2a_agents.writer import A2AAgentWriter, PreparedAgent
from molecule_core.access.model import CredentialKind, Role
from molecule_core.api.http.response import Response
from molecule_core.api.instructions.template_choices import TemplateChoices
from molecule_core.api.query_parameters import (
    AFTER,
    CONFIRM,
    CONFIRM_NAME,
    LIMIT,
    ORG,
    bool_param,
    query_params,
    read_int_param,
    read_text_param,
)
from molecule_core.api.routing import (
    ALL_CREDENTIALS,
    PERSON_OR_ADMIN,
    AccessPolicy,
    Request,
    Route,
    WorkspaceScope,
    json_response,
)
from molecule_core.common.clock import to_optional_rfc3339, to_rfc3339
from molecule_core.common.errors import CommunicationDenied, CursorNotFound, InvalidField, NotFound, WorkspaceRemoved
from molecule_core.common.limits import MAX_REPLY_SECONDS
from molecule_core.common.net.safe_fetch import Fetcher
from molecule_core.org import rules
from molecule_core.org.model import DeliveryMode, NewWorkspace, Workspace, WorkspaceStatus
from molecule_core.org.reader import OrgReader
from molecule_core.org.writer import OrgWriter
from molecule_core.wire.schemas.envelope import InstructionShape
from molecule_core.wire.schemas.events import WorkspaceView

_MAX_TIER = 9
_MAX_TASKS = 10_000
ReplySeconds = Annotated[int, msgspec.Meta(ge=0, le=MAX_REPLY_SECONDS)]


class CanvasPoint(Struct):
    """Position of a workspace on the canvas."""

    x: float = 0.0
    y: float = 0.0


class A2ACredentialBody(Struct, forbid_unknown_fields=True):
    """A credential for the A2A agent of others; no response contains it.

    `secret`: the token, the key, or the secret of an OAuth2 client. `header`, `token_url` and `scopes` replace what the
    agent card says."""

    kind: A2ACredentialKind
    secret: str
    header: str | None = None
    client_id: str | None = None
    token_url: str | None = None
    scopes: list[str] | None = None


class CardKeysBody(Struct, forbid_unknown_fields=True):
    """What the card of an A2A agent must be signed with: a public key as PEM, or the address of a JSON Web Key Set."""

    pem: str | None = None
    jwks_url: str | None = None


class CreateWorkspaceBody(Struct):
    """A workspace to create. Without a url it polls; with one, its messages are pushed there.

    `a2a_card_url`: the address of the card of an A2A agent of others, which becomes the agent of the workspace.
    `a2a_card_keys`: an agent card without a signature of one of these keys is refused."""

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
    instruction_shape: InstructionShape | None = None
    reply_seconds: ReplySeconds | None = None
    send_drafts: bool = True
    canvas: CanvasPoint | None = None
    key: str | None = None
    a2a_card_url: str | None = None
    a2a_credential: A2ACredentialBody | None = None
    a2a_card_keys: CardKeysBody | None = None


class ChangeWorkspaceBody(Struct, forbid_unknown_fields=True):
    """Changes to a workspace; what is left out stays. `parent_id` moves it and all below it; null: to the top.

    `a2a_card_url`: null ends the use of the A2A agent. `a2a_credential`: null removes the credential. `a2a_card_keys`:
    null accepts cards without a signature; they stay when the address of the card changes."""

    parent_id: str | UnsetType | None = UNSET
    name: str | UnsetType = UNSET
    role: str | UnsetType | None = UNSET
    runtime: str | UnsetType = UNSET
    tier: int | UnsetType = UNSET
    max_concurrent_tasks: int | UnsetType = UNSET
    instruction_template_id: str | UnsetType | None = UNSET
    instruction_compact: bool | UnsetType = UNSET
    instruction_shape: InstructionShape | UnsetType | None = UNSET
    reply_seconds: ReplySeconds | UnsetType | None = UNSET
    send_drafts: bool | UnsetType = UNSET
    a2a_published: bool | UnsetType = UNSET
    external: bool | UnsetType = UNSET
    delivery_mode: str | UnsetType = UNSET
    url: str | UnsetType | None = UNSET
    key: str | UnsetType | None = UNSET
    a2a_card_url: str | UnsetType | None = UNSET
    a2a_credential: A2ACredentialBody | UnsetType | None = UNSET
    a2a_card_keys: CardKeysBody | UnsetType | None = UNSET
    collapsed: bool | UnsetType = UNSET
    x: float | UnsetType = UNSET
    y: float | UnsetType = UNSET


class WorkspaceTreeNode(Struct):
    """A workspace and those below it."""

    id: str
    name: str
    role: str | None
    status: str
    limited_until: str | None
    children: list["WorkspaceTreeNode"]


class WorkspaceStateResponse(Struct, frozen=True):
    """Whether an agent should continue; `deleted`, with 404, means that it should stop.

    `limited_until`: a vendor's limit keeps it from working until then."""

    workspace_id: str
    status: str
    paused: bool
    deleted: bool
    limited_until: str | None


class WorkspaceRoutes:
    """Routes of workspaces and their tree."""

    def __init__(
        self,
        writer: OrgWriter,
        org: OrgReader,
        templates: TemplateChoices,
        fetcher: Fetcher,
        a2a_agents: A2AAgentWriter,
        a2a_reader: A2AAgentReader,
        *,
        public_url: str,
    ) -> None:
        self._fetcher = fetcher
        self._a2a_agents = a2a_agents
        self._a2a_reader = a2a_reader
        self._templates = templates
        self._writer = writer
        self._org = org
        self._public_url = public_url

    def routes(self) -> list[Route]:
        """Return the routes."""
        one = "/workspaces/{id}"
        operator = AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.NONE, Role.OPERATOR)
        operator_of = AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.OWN, Role.OPERATOR)
        view_talk = AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.TALK)
        view_own = AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.OWN)
        paged = query_params(
            LIMIT, AFTER, ORG, bool_param("include_removed", "Whether to list removed workspaces too, without pages.")
        )
        removed = query_params(bool_param("include_removed", "Whether to show a removed workspace."))
        confirmed = query_params(CONFIRM, CONFIRM_NAME)
        return [
            Route(
                "POST",
                "/workspaces",
                self.create_workspace,
                operator,
                "Create a workspace",
                CreateWorkspaceBody,
                status=201,
            ),
            Route(
                "GET",
                "/workspaces",
                self.list_workspaces,
                AccessPolicy(PERSON_OR_ADMIN),
                "List workspaces",
                None,
                list[WorkspaceView],
                query=paged,
            ),
            Route(
                "GET",
                one,
                self.get_workspace,
                view_talk,
                "Get a workspace",
                None,
                WorkspaceView,
                allow_removed=True,
                query=removed,
            ),
            Route(
                "PATCH",
                one,
                self.change_workspace,
                operator_of,
                "Update a workspace",
                ChangeWorkspaceBody,
                WorkspaceView,
            ),
            Route(
                "DELETE",
                one,
                self.remove_workspace,
                operator_of,
                "Remove a workspace and all below it",
                query=confirmed,
            ),
            Route(
                "GET",
                f"{one}/state",
                self.get_state,
                view_own,
                "Get the state of a workspace",
                None,
                WorkspaceStateResponse,
                allow_removed=True,
                gone_response=WorkspaceStateResponse,
            ),
            Route(
                "GET",
                "/orgs/{org_id}/tree",
                self.get_tree,
                AccessPolicy(PERSON_OR_ADMIN),
                "Get the org tree",
                None,
                list[WorkspaceTreeNode],
            ),
        ]

    async def create_workspace(self, request: Request) -> Response:
        """Create a workspace, and return its token, which is shown only once."""
        body = request.parse_body(CreateWorkspaceBody)
        mode = body.delivery_mode or (DeliveryMode.PUSH if body.url else DeliveryMode.POLL)
        await self._check_url(mode, body.url)
        check_workspace_numbers(body.tier, body.max_concurrent_tasks)
        org_id = self._org_id_for(request, body.org_id)
        self._templates.check(request.caller, org_id, body.instruction_template_id, None)
        keys = _to_card_keys(body.a2a_card_keys)
        agent = await self._prepare_agent(request, body.a2a_card_url, body.a2a_credential, keys)
        point = body.canvas or CanvasPoint()
        new = NewWorkspace(
            name=body.name,
            parent_id=body.parent_id,
            role=body.role,
            runtime=body.runtime or ("generic-mcp" if agent is None else "a2a"),
            external=body.external,
            delivery_mode=mode,
            url=body.url,
            tier=body.tier,
            max_concurrent_tasks=body.max_concurrent_tasks,
            instruction_template_id=body.instruction_template_id,
            instruction_compact=body.instruction_compact,
            instruction_shape=body.instruction_shape,
            reply_seconds=body.reply_seconds,
            send_drafts=body.send_drafts,
            x=point.x,
            y=point.y,
            key=body.key,
            a2a_card_url=body.a2a_card_url,
        )
        more = None if agent is None else self._a2a_agents.changes(agent)
        created = await self._writer.create_workspace(org_id, new, more)
        workspace = created.workspace
        connection = connection_details(
            workspace.id, created.token, self._public_url, mode=workspace.delivery_mode, push_secret=created.push_secret
        )
        return json_response(
            {
                "id": workspace.id,
                "name": workspace.name,
                "org_id": workspace.org_id,
                "external": workspace.external,
                "status": workspace.status.value,
                "delivery_mode": workspace.delivery_mode,
                "connection": connection,
            },
            201,
        )

    async def _prepare_agent(
        self,
        request: Request,
        card_url: str | None,
        credential: A2ACredentialBody | A2ACredential | None,
        keys: CardKeys | None,
    ) -> PreparedAgent | None:
        """Fetch and check the card of an A2A agent. Raises InvalidField, UnsafeUrl.

        `credential`: a new one, or the stored one, which keeps its origins."""
        if not card_url:
            if credential is not None or keys is not None:
                raise InvalidField(
                    reason="a credential or key of an A2A agent needs the url of its card. Set a2a_card_url."
                )
            return None

        def complete(fetched: FetchedCard) -> A2ACredential | None:
            if not isinstance(credential, A2ACredentialBody):
                return credential
            named = {name: getattr(credential, name) for name in ("header", "client_id", "token_url", "scopes")}
            return rules_of_agents.complete_credential(
                credential.kind, credential.secret, card_url, fetched.parsed, request.limits, **named
            )

        return await self._a2a_agents.prepare(card_url, complete, keys)

    async def _check_url(self, mode: str | None, url: str | None) -> None:
        """Check that the server may send requests to a push url. Raises UnsafeUrl, FetchFailed."""
        if url and mode != DeliveryMode.POLL:
            await self._fetcher.check_url(url)

    def _org_id_for(self, request: Request, org_id: str | None) -> str:
        """Return the organisation of a new workspace: the person's own; for the admin, the named or the first one."""
        if request.caller.kind is CredentialKind.PERSON:
            if org_id not in (None, request.caller.org_id):
                raise NotFound(what="organisation")
            return request.caller.org_id
        if org_id is None:
            return self._org.orgs()[0].id
        if self._org.find_org(org_id) is None:
            raise NotFound(what="organisation")
        return org_id

    async def list_workspaces(self, request: Request) -> Response:
        """List workspaces that the caller may see, oldest first; removed ones only with `include_removed`.

        For the admin, of one organisation if it names one. With `limit`: at most as many of one organisation, after the
        workspace that `after` names.
        """
        query = request.query_params()
        own = request.caller.org_id if request.caller.kind is CredentialKind.PERSON else None
        org_id = own or read_text_param(query, "org_id")
        count = read_int_param(query, "limit", minimum=1, maximum=request.limits.page_rows)
        if query.get("include_removed") == "true":
            orgs = [org_id] if org_id else [each.id for each in self._org.orgs()]
            rows = (row for each in orgs for row in self._org.all_with_removed(each))
            return json_response([self._workspace_view(row) for row in rows])
        if count is None:
            return Response(self._org.encoded_list(org_id))
        try:
            return Response(
                self._org.encoded_page(org_id or self._org.orgs()[0].id, read_text_param(query, "after"), count)
            )
        except LookupError:
            raise CursorNotFound(name="after") from None

    def _workspace_view(self, workspace: Workspace) -> WorkspaceView:
        return self._org.workspace_view(workspace)

    async def get_workspace(self, request: Request) -> Response:
        """Return a workspace; a removed one only with `include_removed`."""
        if request.caller.kind is CredentialKind.WORKSPACE:
            own = self._org.workspace(request.caller.id)
            if own is not None and not rules.are_related(self._org, own, request.workspace):
                raise CommunicationDenied
        if request.workspace.removed and request.query_params().get("include_removed") != "true":
            raise WorkspaceRemoved(id=request.workspace.id, removed_at=to_rfc3339(request.workspace.removed_at or 0))
        return json_response(self._workspace_view(request.workspace))  # control: workspace-status

    async def change_workspace(self, request: Request) -> Response:
        """Change the settings of a workspace."""
        body = request.parse_body(ChangeWorkspaceBody)
        fields = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not UNSET}
        check_workspace_numbers(fields.get("tier", 1), fields.get("max_concurrent_tasks", 1))
        current = request.workspace.instruction_template_id
        chosen = fields.get("instruction_template_id", current)
        self._templates.check(request.caller, request.workspace.org_id, chosen, current)
        for name in ("delivery_mode", "url"):  # older clients send an empty value for no change
            if fields.get(name) == "":
                del fields[name]
        await self._check_url(fields.get("delivery_mode"), fields.get("url"))
        agent = await self._changed_agent(request, fields)
        changed = await self._writer.update_workspace(request.workspace.id, fields, self._a2a_agents.changes(agent))
        return json_response(self._workspace_view(changed))

    async def _changed_agent(self, request: Request, fields: dict[str, Any]) -> PreparedAgent | None:
        """Return the A2A agent that a change sets; None if it sets none.

        A new card url drops the credential. Keys stay: else a change of the url would be a way around them."""
        given = fields.keys() & {"a2a_card_url", "a2a_credential", "a2a_card_keys"}
        if not given:
            return None
        stored = await self._a2a_reader.agent(request.workspace.id)
        credential, keys = fields.pop("a2a_credential", None), fields.pop("a2a_card_keys", None)
        card_url = fields.setdefault("a2a_card_url", request.workspace.a2a_card_url)
        body = None if credential is None else msgspec.convert(credential, A2ACredentialBody)
        kept = stored.parsed_credential() if stored is not None and given == {"a2a_card_keys"} else None
        if "a2a_card_keys" in given:
            used = _to_card_keys(None if keys is None else msgspec.convert(keys, CardKeysBody))
        else:
            used = stored.parsed_card_keys() if stored is not None and card_url else None
        return await self._prepare_agent(request, card_url, body or kept, used)

    async def remove_workspace(self, request: Request) -> Response:
        """Remove a workspace and all below it; with `name`, only if a person typed its current name to confirm."""
        query = request.query_params()
        removed_workspaces = await self._writer.remove_workspace(
            request.workspace.id, confirmed=query.get("confirm") == "true", typed_name=read_text_param(query, "name")
        )
        return json_response(
            {"status": "removed", "removed": [{"id": each.id, "name": each.name} for each in removed_workspaces]}
        )

    async def get_state(self, request: Request) -> Response:
        """Return the state that an agent checks before it continues to work."""
        workspace = request.workspace
        paused = workspace.status is WorkspaceStatus.PAUSED
        limited_until = to_optional_rfc3339(workspace.limited_until)
        state = WorkspaceStateResponse(workspace.id, workspace.status.value, paused, workspace.removed, limited_until)
        return json_response(state, 404 if workspace.removed else 200)

    async def get_tree(self, request: Request) -> Response:
        """Return the org tree from its roots."""
        roots = self._org.roots(request.path_params["org_id"])
        return json_response([self._tree_node(root) for root in roots])

    def _tree_node(self, workspace: Workspace) -> WorkspaceTreeNode:
        below = [self._tree_node(child) for child in self._org.children(workspace)]
        limited_until = to_optional_rfc3339(workspace.limited_until)
        return WorkspaceTreeNode(
            workspace.id, workspace.name, workspace.role, workspace.status.value, limited_until, below
        )


def _to_card_keys(body: CardKeysBody | None) -> CardKeys | None:
    """Return the keys that a body names. Raises InvalidField."""
    if body is None:
        return None
    if bool(body.pem) == bool(body.jwks_url):
        raise InvalidField(reason="a2a_card_keys needs pem or jwks_url, and not both. Name the key or its address.")
    return CardKeys(pem=body.pem or "", jwks_url=body.jwks_url or "")


def check_workspace_numbers(tier: Any, max_concurrent_tasks: Any) -> None:
    """Check that both numbers are plausible. Raises InvalidField."""
    if not 0 <= tier <= _MAX_TIER:
        raise InvalidField(reason=f"tier cannot be {tier}. Use a number from 0 to {_MAX_TIER}.")
    if not 1 <= max_concurrent_tasks <= _MAX_TASKS:
        raise InvalidField(
            reason=f"max_concurrent_tasks cannot be {max_concurrent_tasks}. Use a number from 1 to {_MAX_TASKS}."
        )


def connection_details(
    workspace_id: str,
    token: str | None,
    url: str,
    *,
    mode: str = DeliveryMode.POLL,
    push_secret: str | None = None,
) -> dict[str, str]:
    """Return all that an agent needs to connect, with commands to paste.

    Only the response that creates a workspace contains its secrets; without the token, the commands have a placeholder.
    The commands keep it in a file or the environment, since other users of a machine can read process arguments.
    """
    secret = token or "YOUR-TOKEN"
    register = f'{{"id":"{workspace_id}","delivery_mode":"{mode}","agent_card":{{"name":"My agent"}}}}'
    return {
        "workspace_id": workspace_id,
        "platform_url": url,
        **({} if token is None else {"auth_token": token}),
        **({} if push_secret is None else {"push_secret": push_secret}),
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
