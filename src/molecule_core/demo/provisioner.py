"""Creates the workspaces of a company through the public API and saves them for the next start."""

import os
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from molecule_core.client.api import ApiClient
from molecule_core.common.errors import BadSettings
from molecule_core.demo.company import Company, PlacedWorkspace, WorkspacePath, list_company_workspaces
from molecule_core.demo.model import MICROS, DemoBudget, DemoWorkspace

STATE_FILE = "demo.json"
RUNTIME = "demo"
"""The `runtime` of the company's workspaces, which distinguishes them from others."""


class SavedWorkspace(Struct, frozen=True):
    """A created workspace: its path in the tree, its id and its token."""

    path: WorkspacePath
    id: str
    token: str


class DemoState(Struct, frozen=True):
    """The saved state of the demo. `company`: the org file it was started with; None: the packaged one."""

    company: str | None = None
    seats: tuple[SavedWorkspace, ...] = ()


def read_demo_state(folder: Path) -> DemoState | None:
    """Read the state from a demo's folder, or return None if there is none. Raises BadSettings if it is damaged."""
    path = folder / STATE_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=DemoState)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise BadSettings(
            reason=f"{path} cannot be read ({error}). Start over with `molecule up --demo --fresh`"
        ) from None


def write_demo_state(folder: Path, state: DemoState) -> None:
    """Write the state, readable only for its owner. After a crash either the old or the new one is complete."""
    path = folder / STATE_FILE
    unfinished = path.with_suffix(".part")
    unfinished.unlink(missing_ok=True)
    handle = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.encode(state))
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


class WorkspaceProvisioner:
    """Syncs the workspaces on the server with a company: keeps, creates and removes them."""

    def __init__(self, api: ApiClient, folder: Path, state: DemoState) -> None:
        self._api = api
        self._folder = folder
        self._state = state

    async def provision_workspaces(self, company: Company) -> list[tuple[PlacedWorkspace, SavedWorkspace]]:
        """Return the saved workspace of each one in the company, parents first. Raises ApiError, NoAnswerError."""
        wanted = list_company_workspaces(company)
        existing = {row["id"]: row for row in await self._api.get("/workspaces")}
        await self._remove_others(existing, {placed.path for placed in wanted})
        saved = {each.path: each for each in self._state.seats}
        for placed in wanted:
            known = saved.get(placed.path)
            if known is None or known.id not in existing:
                saved[placed.path] = await self._create_workspace(placed, saved)
            else:
                await self._update_workspace(placed.seat, existing[known.id])
            if placed.seat.budget is not None:
                await self._ensure_budget(saved[placed.path].id, placed.seat.budget)
        return [(placed, saved[placed.path]) for placed in wanted]

    async def _create_workspace(
        self, placed: PlacedWorkspace, saved: dict[WorkspacePath, SavedWorkspace]
    ) -> SavedWorkspace:
        seat, parent = placed.seat, saved.get(placed.path[:-1])
        new = {
            "name": seat.name,
            "role": seat.role,
            "runtime": RUNTIME,
            "parent_id": parent.id if parent else None,
            "reply_seconds": seat.reply_seconds,
            "send_drafts": _sends_drafts(seat),
        }
        response = await self._api.post("/workspaces", new)
        created = SavedWorkspace(placed.path, response["id"], response["connection"]["auth_token"])
        others = tuple(each for each in self._state.seats if each.path != placed.path)
        self._save_workspaces((*others, created))
        return created

    async def _update_workspace(self, seat: DemoWorkspace, row: dict[str, Any]) -> None:
        """Update an existing workspace from the file."""
        wanted = {"role": seat.role, "reply_seconds": seat.reply_seconds, "send_drafts": _sends_drafts(seat)}
        change = {name: value for name, value in wanted.items() if row[name] != value}
        if change:
            await self._api.call("PATCH", f"/workspaces/{row['id']}", body=change)

    async def _ensure_budget(self, workspace_id: str, budget: DemoBudget) -> None:
        """Create the budget of a workspace unless it has one: people may have changed that."""
        path = f"/workspaces/{workspace_id}"
        found = await self._api.get(f"{path}/budgets")
        if any(each["target_id"] == workspace_id for each in found["budgets"]):
            return
        lease = {**found["turn_lease"], "money": round(budget.lease * MICROS)}
        await self._api.call("PUT", f"{path}/turn-lease", body=lease)
        org_id = (await self._api.get("/orgs"))[0]["id"]
        new = {"scope": "workspace", "target_id": workspace_id, "unit": "money", "period": "day"}
        await self._api.post(f"/orgs/{org_id}/budgets", {**new, "limit": round(budget.money * MICROS)})

    async def _remove_others(self, existing: dict[str, Any], wanted: set[WorkspacePath]) -> None:
        """Remove workspaces that the company does not have, and those that a crash left before their token was saved.

        A workspace without a saved token cannot be used. One with foreign children stays, with a card that attracts no
        requests."""
        ours = {each.id for each in self._state.seats if each.path in wanted}
        known = {each.id for each in self._state.seats}
        removed_ids = [id_ for id_, row in existing.items() if id_ not in ours and (id_ in known or _is_lost(row))]
        for id_ in reversed(removed_ids):  # parents were created first, so the lowest are removed first
            if any(row["parent_id"] == id_ for row in existing.values()):
                card = {"name": existing[id_]["name"]}
                await self._api.post("/registry/update-card", {"workspace_id": id_, "agent_card": card})
            else:
                await self._api.call("DELETE", f"/workspaces/{id_}", query={"confirm": "true"})
                del existing[id_]
        self._save_workspaces(tuple(each for each in self._state.seats if each.path in wanted and each.id in existing))

    def _save_workspaces(self, seats: tuple[SavedWorkspace, ...]) -> None:
        self._state = replace(self._state, seats=seats)
        write_demo_state(self._folder, self._state)


def _sends_drafts(seat: DemoWorkspace) -> bool:
    """Return whether the last output of the agent is its answer, as for `molecule agent run`."""
    return seat.host == "agent"


def _is_lost(row: dict[str, Any]) -> bool:
    never_registered = row["agent_card"] is None
    return never_registered and bool(row["runtime"] == RUNTIME)
