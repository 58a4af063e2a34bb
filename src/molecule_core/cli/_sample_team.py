"""The sample team that `molecule up` can add to an organisation: scripted agents as processes of this machine.

Its workspaces are ordinary ones, removed as any other. The state folder keeps only their ids: each start of the agents
issues new tokens."""

import asyncio
import logging
import os
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common.errors import BadSettings, InvalidField
from molecule_core.demo.api_rows import build_agent_card
from molecule_core.demo.company import Company, PlacedWorkspace, list_company_workspaces, packaged_company
from molecule_core.demo.model import AgentAssignment, DemoWorkspace
from molecule_core.demo.supervisor import AgentSupervisor
from molecule_core.server.composition import Server
from molecule_core.server.server_record import read_server_record

TEAM_FILE = "sample-teams.json"
COMPANY_FILE = "sample.toml"
_RUNTIME = "sample"
_log = logging.getLogger("molecule.sample")

SavedTeams = dict[str, list[str]]
"""Workspaces of the team of each organisation, in the order of the company file."""


class SampleTeams:
    """Sample teams of a server, at most one for each organisation: an ordinary client of its public API.

    Implements `api.org.sample_team.SampleTeamHost`. `token`: the admin token."""

    def __init__(self, server: Server, state: Path, token: str) -> None:
        self._server = server
        self._token = token
        self._file = state / TEAM_FILE
        # Before the server listens: a request must not add a second team.
        self._saved = _read_teams(self._file)
        self._supervisors: list[AgentSupervisor] = []
        self._starts: set[asyncio.Task[None]] = set()
        self._started: set[str] = set()
        """Organisations whose team was started since the server started."""
        self._lock = asyncio.Lock()

    @cached_property
    def _company(self) -> Company:
        return packaged_company(COMPANY_FILE)

    def root_of(self, org_id: str) -> str | None:
        """Return the workspace at the top of an organisation's team, or None."""
        root_id = next(iter(self._saved.get(org_id, [])), None)
        return root_id if root_id is not None and self._is_active(root_id) else None

    async def add_team(self, org_id: str) -> str:
        """Create the team of an organisation and start its agents. Return the workspace at its top.

        Returns that of the existing team if there is one. Raises InvalidField."""
        async with self._lock:
            existing = self.root_of(org_id)
            if existing is not None:
                return existing
            try:
                async with ApiClient(self._url, self._token) as api:
                    ids = await self._create_workspaces(api, org_id)
            except (ApiError, NoAnswerError) as error:
                reason = f"the workspaces of the sample team cannot be created ({error}). Try again."
                raise InvalidField(reason=reason) from None
            self._saved[org_id] = ids
            await asyncio.to_thread(self._save)
            self._start_team(org_id)
            return ids[0]

    async def resume_teams(self) -> None:
        """Start the agents of the teams that an earlier run has created; forget those that were removed."""
        async with self._lock:
            self._saved = {org_id: ids for org_id, ids in self._saved.items() if self.root_of(org_id) is not None}
            for org_id in self._saved:
                if org_id not in self._started:
                    self._start_team(org_id)

    async def stop(self) -> None:
        """Stop all agents. They release what they hold while the server still serves."""
        for each in self._starts:
            each.cancel()
        await asyncio.gather(*self._starts, return_exceptions=True)
        await asyncio.gather(*(each.stop_agents() for each in self._supervisors))

    # -- workspaces ----------------------------------------------------------------------------------------------------

    async def _create_workspaces(self, api: ApiClient, org_id: str) -> list[str]:
        """Create the workspaces in the order of the file, with the cards that their agents will register."""
        (root,) = self._company.seat
        top = str((await api.post("/workspaces", {**_new_workspace(root), "org_id": org_id}))["id"])
        try:
            expanded = await api.post(f"/workspaces/{top}/expand", {"children": _team(root.seat)})
            ids = [top, *(str(child["id"]) for child in expanded["children"])]
            for placed, workspace_id in zip(list_company_workspaces(self._company), ids, strict=True):
                card = {"workspace_id": workspace_id, "agent_card": build_agent_card(placed.seat)}
                await api.post("/registry/update-card", card)
        except ApiError:
            await api.call("DELETE", f"/workspaces/{top}", query={"confirm": "true"})
            raise
        return ids

    def _is_active(self, workspace_id: str) -> bool:
        found = self._server.registry.workspace(workspace_id)
        return found is not None and not found.removed

    @property
    def _url(self) -> str:
        """Return the address of the server on this machine."""
        settings = self._server.settings
        record = read_server_record(settings.state_folder)
        return settings.url if record is None else record.address

    # -- agents --------------------------------------------------------------------------------------------------------

    def _start_team(self, org_id: str) -> None:
        """Start the agents in the background: their states are seen on the page."""
        self._started.add(org_id)
        start = asyncio.create_task(self._start_agents(org_id))
        self._starts.add(start)
        start.add_done_callback(self._starts.discard)

    async def _start_agents(self, org_id: str) -> None:
        supervisor = AgentSupervisor()
        self._supervisors.append(supervisor)
        placed = list_company_workspaces(self._company)
        pairs = zip(placed, self._saved[org_id], strict=False)
        try:
            async with ApiClient(self._url, self._token) as api:
                assignments = [
                    await self._assignment(api, each, workspace_id)
                    for each, workspace_id in pairs
                    if self._is_active(workspace_id)
                ]
            await supervisor.start_agents(assignments)
        except (BadSettings, ApiError, NoAnswerError, OSError) as error:
            _log.error("the sample team cannot start: %s", error)

    async def _assignment(self, api: ApiClient, placed: PlacedWorkspace, workspace_id: str) -> AgentAssignment:
        """Return what an agent gets when it starts, with a new token. The tokens of earlier starts end."""
        rotated = await api.post(f"/workspaces/{workspace_id}/external/rotate", {"grace_seconds": 0})
        seat = msgspec.structs.replace(placed.seat, seat=())
        return AgentAssignment(self._url, workspace_id, str(rotated["connection"]["auth_token"]), seat)

    def _save(self) -> None:
        """Write the file, private to its owner. After a crash either the old or the new one is complete."""
        unfinished = self._file.with_suffix(".part")
        unfinished.unlink(missing_ok=True)
        with os.fdopen(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(msgspec.json.encode(self._saved))
        unfinished.replace(self._file)


def _read_teams(file: Path) -> SavedTeams:
    """Read the teams. A file that cannot be read counts as empty: their workspaces stay, without agents."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=SavedTeams)
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        _log.warning("%s cannot be read (%s): the agents of earlier sample teams do not start", file, error)
        return {}


def _new_workspace(seat: DemoWorkspace) -> dict[str, Any]:
    return {"name": seat.name, "role": seat.role, "runtime": _RUNTIME, "send_drafts": False}


def _team(seats: tuple[DemoWorkspace, ...]) -> list[dict[str, Any]]:
    return [{**_new_workspace(each), "children": _team(each.seat)} for each in seats]
