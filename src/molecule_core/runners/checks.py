"""Requests runners to run the commands that check answers. Called by delegations.

What a runner offers is in its last report. The request is a row as all requests to runners are: it is claimed, claimed
again if its runner dies, and confirmed with the runner's own credential."""

from collections.abc import Generator
from typing import Any

from msgspec import Struct

from molecule_core.common.limits import Limits
from molecule_core.runners import rules
from molecule_core.runners.model import CHECK_ACTION, CHECK_CREATOR, RunnerAgent, RunnerRequest, runner_key
from molecule_core.runners.reader import runner_from_row
from molecule_core.store.database import ReadQuery, RequestBatch, StepRequest, WriteSet


class RequestedCheck(Struct, frozen=True, kw_only=True):
    """A command to run for a delegation. `until`: its deadline. Times in microseconds."""

    id: str
    org_id: str
    delegation_id: str
    workspace_id: str
    name: str
    at: int
    until: int


class RunnerChecks:
    """Requests of checks to runners."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def find_offers(self, org_id: str, workspace_id: str, now: int) -> Generator[StepRequest, Any, dict[str, str]]:
        """Return the names that runners offer for a workspace, each with the id of the runner.

        Of several runners, the one that runs the agent is chosen, else one that polls, else the oldest."""
        rows, agents = yield RequestBatch(
            [
                ReadQuery("runners_of_org", {"org_id": org_id}),
                ReadQuery("runner_agent", {"workspace_id": workspace_id}),
            ]
        )
        own_id = RunnerAgent(*agents[0]).runner_id if agents else ""
        runners = sorted(
            map(runner_from_row, rows),
            key=lambda each: (each.id != own_id, rules.is_gone(each, now, self._limits.runner_silence_seconds)),
        )
        found: dict[str, str] = {}
        for runner in runners:
            for offer in runner.report.checks:
                if offer.workspace_id == workspace_id:
                    found = {**dict.fromkeys(offer.names, runner.id), **found}
        return found

    def request(self, runner_id: str, check: RequestedCheck) -> WriteSet[None]:
        """Return the change that requests a check of a runner."""
        row = RunnerRequest(
            id=check.id,
            runner_id=runner_id,
            org_id=check.org_id,
            workspace_id=check.workspace_id,
            action=CHECK_ACTION,
            status="queued",
            text=check.name,
            output="",
            created_by=f"{CHECK_CREATOR}{check.delegation_id}",
            created_at=check.at,
            claimed_at=None,
            expires_at=check.until,
        )
        return WriteSet(None, [("insert_runner_request", row)], notify=(runner_key(runner_id),))
