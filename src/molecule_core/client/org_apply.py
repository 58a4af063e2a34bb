"""Applies an org file to an organisation through the public API.

An interrupted run can be repeated: finished changes are found done. Parents come before children, so that no move
creates a cycle; removals come last, when all remaining workspaces have been moved out. Called by cli; calls org_plan
and api.
"""

from collections.abc import Callable
from typing import Any

from molecule_core.client.api import ApiClient, ApiError
from molecule_core.client.org_file import OrgFileWorkspace, OrgNode
from molecule_core.client.org_plan import (
    ABILITIES,
    CreateWorkspace,
    OrgPlan,
    RemoveWorkspace,
    Row,
    UpdateWorkspace,
    format_path,
    make_plan,
)
from molecule_core.common.errors import CommandFailed

# Swapped names need a second pass (the first gives one of them a number); further passes are for concurrent changes.
_MAX_PASSES = 4
_CONFLICT = 409
_CREATE_FIELDS = (
    "name",
    "runtime",
    "external",
    "tier",
    "max_concurrent_tasks",
    "instruction_template_id",
    "instruction_compact",
    "instruction_shape",
    "reply_seconds",
    "send_drafts",
    "key",
    "delivery_mode",
    "url",
    "a2a_card_url",
)


async def find_org(api: ApiClient, name: str | None) -> dict[str, Any] | None:
    """Return the organisation of this name that the credential can access (None: the caller's own, or the first).

    None: it does not exist, and an admin may create it. Raises ApiError, NoAnswerError, CommandFailed."""
    session = await api.get("/session")
    if session["user"]["kind"] != "admin":
        own: dict[str, Any] = session["org"]
        if name not in (None, own["name"], own["id"]):
            raise CommandFailed(reason=f"this token is for {own['name']!r}, not for {name!r}. Set --org.")
        return own
    orgs: list[dict[str, Any]] = await api.get("/orgs")
    return next((each for each in orgs if name in (None, each["name"], each["id"])), None)


async def list_workspaces(api: ApiClient, org_id: str) -> list[Row]:
    """Return all workspaces of an organisation. Raises ApiError, NoAnswerError."""
    rows: list[Row] = await api.get("/workspaces", org_id=org_id)
    return rows


class OrgPlanApplier:
    """Executes plans. `save_token` gets each new workspace's id, path and token; `report` a line for people."""

    def __init__(
        self,
        api: ApiClient,
        org_id: str,
        *,
        save_token: Callable[[str, tuple[str, ...], str], None],
        report: Callable[[str], None],
    ) -> None:
        self._api = api
        self._org_id = org_id
        self._save_token = save_token
        self._report = report

    async def apply(self, wanted: list[OrgNode], may_remove: Callable[[OrgPlan], bool]) -> None:
        """Apply the file; `may_remove` is asked before any removal that was not confirmed yet.

        Raises ApiError, NoAnswerError, CommandFailed."""
        known: dict[int, str] = {}
        confirmed: set[str] = set()
        for _ in range(_MAX_PASSES):
            plan = make_plan(wanted, await list_workspaces(self._api, self._org_id), known)
            if plan.is_empty:
                return
            removed_ids = {removal.row["id"] for removal in plan.removed_subtrees}
            if not removed_ids <= confirmed and not may_remove(plan):
                raise CommandFailed(reason="nothing was changed")
            confirmed |= removed_ids
            known = await self._carry_out(wanted, plan)
        raise CommandFailed(
            reason="the organisation was changed by another request at the same time. Run this command again."
        )

    async def _carry_out(self, wanted: list[OrgNode], plan: OrgPlan) -> dict[int, str]:
        ids = dict(plan.workspace_ids)
        creations = {creation.node_index: creation for creation in plan.creations}
        updates = {update.row["id"]: update for update in plan.updates}
        for number, node in enumerate(wanted):
            parent_id = None if node.parent_index is None else ids[node.parent_index]
            if number in creations:
                ids[number] = await self._create_workspace(creations[number], parent_id)
            elif ids[number] in updates:
                await self._update_workspace(updates[ids[number]], parent_id)
        for removal in plan.removed_subtrees:
            await self._remove_workspace(removal)
        return ids

    async def _create_workspace(self, creation: CreateWorkspace, parent_id: str | None) -> str:
        workspace, path = creation.node.workspace, creation.node.path
        body = {name: value for name in _CREATE_FIELDS if (value := getattr(workspace, name)) is not None}
        body |= {"org_id": self._org_id, "parent_id": parent_id, "role": workspace.role or None}
        response = await self._api.post("/workspaces", body)
        self._report(f"+ {format_path(path)}")
        self._save_token(response["id"], path, response["connection"]["auth_token"])
        await self._set_abilities(response["id"], _non_default_abilities(workspace))
        return str(response["id"])

    async def _update_workspace(self, update: UpdateWorkspace, parent_id: str | None) -> None:
        id_, new = update.row["id"], {name: value for name, (_, value) in update.members.items()}
        body = {name: value for name, value in new.items() if name not in ABILITIES}
        if update.is_moved:
            body["parent_id"] = parent_id
        if body:
            await self._api.call("PATCH", f"/workspaces/{id_}", body=body)
        await self._set_abilities(id_, {name: value for name, value in new.items() if name in ABILITIES})
        self._report(f"{'>' if update.is_moved else '~'} {format_path(update.node.path)}")

    async def _set_abilities(self, id_: str, abilities: dict[str, bool]) -> None:
        if abilities:
            await self._api.call("PATCH", f"/workspaces/{id_}/abilities", body=abilities)

    async def _remove_workspace(self, removal: RemoveWorkspace) -> None:
        """Remove what the plan names, and nothing that was added below it meanwhile."""
        path, name = f"/workspaces/{removal.row['id']}", removal.row["name"]
        try:
            await self._api.call("DELETE", path)
        except ApiError as error:
            if error.status != _CONFLICT:
                raise
            others = {each["name"] for each in error.problem["children"]} - set(removal.descendants)
            if others:
                names = ", ".join(sorted(others))
                raise CommandFailed(
                    reason=f"new workspaces were added below {name!r} ({names}). Run this command again."
                ) from None
        await self._api.call("DELETE", path, query={"confirm": "true", "name": name})
        self._report(f"- {format_path(removal.path)}")


def _non_default_abilities(workspace: OrgFileWorkspace) -> dict[str, bool]:
    default = OrgFileWorkspace(name="")
    return {name: value for name in ABILITIES if (value := getattr(workspace, name)) != getattr(default, name)}
