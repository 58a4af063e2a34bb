"""Reads of runners, their agents and requests."""

from collections.abc import Sequence

import msgspec

from molecule_core.common.clock import Clock, to_optional_rfc3339, to_rfc3339
from molecule_core.common.errors import NotFound
from molecule_core.common.limits import Limits
from molecule_core.org.reader import OrgReader
from molecule_core.runners import rules
from molecule_core.runners.model import Runner, RunnerAgent, RunnerRequest, request_key
from molecule_core.store.database import Row, Store
from molecule_core.store.wakeups import Notifier, Poll
from molecule_core.wire.schemas.runners import RunnerAgentView, RunnerReport, RunnerRequestView, RunnerView


def runner_from_row(row: Row) -> Runner:
    """Build a runner from its columns."""
    runner_id, org_id, name, created_by, created_at, seen_at, report = row
    decoded = msgspec.json.decode(report, type=RunnerReport)
    return Runner(runner_id, org_id, name, created_by, created_at, seen_at, decoded)


def find_runner(rows: Sequence[Row], org_id: str) -> Runner:
    """Return the runner of a lookup by id. Raises NotFound."""
    runner = runner_from_row(rows[0]) if rows else None
    if runner is None or runner.org_id != org_id:
        raise NotFound(what="runner")
    return runner


class RunnerReader:
    """Reads of runners."""

    def __init__(self, store: Store, org: OrgReader, wakeups: Notifier, *, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._org = org
        self._wakeups = wakeups
        self._clock = clock
        self._limits = limits

    async def list_runners(self, org_id: str) -> list[RunnerView]:
        """Return the runners of an organisation with their agents, oldest first."""
        runners = [runner_from_row(row) for row in await self._store.rows("runners_of_org", {"org_id": org_id})]
        batch = [{"runner_id": each.id} for each in runners]
        found = await self._store.rows_of_each("agents_of_runner", batch) if batch else ()
        agents = [[RunnerAgent(*row) for row in rows] for rows in found]
        return [self.runner_view(runner, own) for runner, own in zip(runners, agents, strict=True)]

    def runner_view(self, runner: Runner, agents: Sequence[RunnerAgent], token: str | None = None) -> RunnerView:
        """Return a runner as people see it."""
        report, gone = runner.report, rules.is_gone(runner, self._clock.now(), self._limits.runner_silence_seconds)
        return RunnerView(
            id=runner.id,
            org_id=runner.org_id,
            name=runner.name,
            is_gone=gone,
            created_at=to_rfc3339(runner.created_at),
            seen_at=to_optional_rfc3339(runner.seen_at),
            machine=report.machine,
            version=report.version,
            installed=list(report.installed),
            folders=list(report.folders),
            agents=[self._agent_view(each, report, gone=gone) for each in agents],
            sessions=[] if gone else list(report.sessions),
            checks=list(report.checks),
            token=token,
        )

    def _agent_view(self, agent: RunnerAgent, report: RunnerReport, *, gone: bool) -> RunnerAgentView:
        workspace = self._org.workspace(agent.workspace_id)
        reported = next((each for each in report.agents if each.workspace_id == agent.workspace_id), None)
        return RunnerAgentView(
            workspace_id=agent.workspace_id,
            workspace_name="" if workspace is None else workspace.name,
            kind=agent.kind,
            folder=agent.folder,
            mode=agent.mode,
            state=rules.state_of(agent, reported, gone=gone),
            text="" if reported is None or gone else reported.text,
            restarts=0 if reported is None else reported.restarts,
        )

    async def wait_for_request(self, org_id: str, runner_id: str, request_id: str, wait: float) -> RunnerRequestView:
        """Return a request, once the runner has confirmed it or `wait` seconds have passed. Raises NotFound."""

        async def poll() -> Poll[RunnerRequest]:
            request = await self._request(org_id, runner_id, request_id)
            return Poll(request if request.ended else None)

        ended = await self._wakeups.wait_until(request_key(request_id), poll, wait)
        return self.request_view(ended or await self._request(org_id, runner_id, request_id))

    async def _request(self, org_id: str, runner_id: str, request_id: str) -> RunnerRequest:
        for row in await self._store.rows("runner_request", {"id": request_id, "runner_id": runner_id}):
            request = RunnerRequest(*row)
            if request.org_id == org_id:
                return request
        raise NotFound(what="request")

    def request_view(self, request: RunnerRequest) -> RunnerRequestView:
        """Return a request as people see it."""
        return RunnerRequestView(
            id=request.id,
            runner_id=request.runner_id,
            workspace_id=request.workspace_id,
            action=request.action,
            status=rules.status_of(request, self._clock.now()),
            text=request.text,
            output=request.output,
            created_at=to_rfc3339(request.created_at),
        )
