"""What agents cost: sums of usage by agent, team, model, day and request, with names."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from molecule_core.common.clock import DAY
from molecule_core.common.limits import Limits
from molecule_core.messages.reader import TraceReader
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.usage.model import UsageSum
from molecule_core.usage.reader import UsageReader
from molecule_core.wire.schemas.usage import UsageGrouping, UsageReport, UsageRow


class UsageRange(NamedTuple):
    """A range of days: the first and the last (`YYYY-MM-DD`), and the start of the first in microseconds."""

    since: str
    until: str
    since_at: int
    days: int

    @property
    def until_at(self) -> int:
        """Return the time after the last day."""
        return self.since_at + self.days * DAY


class UsageReportReader:
    """Reader of reports of usage."""

    def __init__(self, usage: UsageReader, messages: TraceReader, org: OrgReader, *, limits: Limits) -> None:
        self._usage = usage
        self._messages = messages
        self._org = org
        self._limits = limits

    async def report_org(self, org_id: str, span: UsageRange, by: UsageGrouping) -> UsageReport:
        """Return the sums of an organisation, the most expensive first; days in their order."""
        since, until = span.since, span.until
        if by is UsageGrouping.DAY:
            sums = await self._usage.sums_by_day(org_id, since, until)
        elif by is UsageGrouping.MODEL:
            sums = await self._usage.sums_by_model(org_id, since, until)
        elif by is UsageGrouping.REQUEST:
            return await self._report_requests(org_id, span)
        else:
            sums = await self._usage.sums_by_workspace(org_id, since, until)
            if by is UsageGrouping.TEAM:
                total = _total(sums.values())
                return await self._to_report(org_id, span, by, self._sum_teams(org_id, sums), total)
        return await self._to_report(org_id, span, by, sums, _total(sums.values()))

    async def report_subtree(self, workspace: Workspace, span: UsageRange, by: UsageGrouping) -> UsageReport:
        """Return the sums of a workspace and all below it, removed ones included."""
        below = self._below(workspace.org_id)
        ids = [workspace.id]
        for each in ids:
            ids += below[each]
        groups: dict[str, UsageSum] = defaultdict(UsageSum)
        for workspace_id, day, model, found in await self._usage.sums_of_workspaces(ids, span.since, span.until):
            key = {UsageGrouping.DAY: day, UsageGrouping.MODEL: model}.get(by, workspace_id)
            groups[key] += found
        total = _total(groups.values())
        if by is UsageGrouping.TEAM:
            own = self._sum_teams(workspace.org_id, groups)
            return await self._to_report(
                workspace.org_id, span, by, {each: own[each] for each in ids if each in own}, total
            )
        return await self._to_report(workspace.org_id, span, by, groups, total)

    async def _report_requests(self, org_id: str, span: UsageRange) -> UsageReport:
        most = self._limits.page_rows
        sums = await self._usage.sums_by_request(org_id, span.since_at, span.until_at, most)
        total = _total((await self._usage.sums_by_day(org_id, span.since, span.until)).values())
        summaries = {}
        for root_id in sums:
            found = await self._messages.list_messages(org_id, root_id, 1)
            summaries[root_id] = found[0].summary if found else None
        return await self._to_report(org_id, span, UsageGrouping.REQUEST, sums, total, summaries)

    def _below(self, org_id: str) -> dict[str, list[str]]:
        below: dict[str, list[str]] = defaultdict(list)
        for each in self._org.all_with_removed(org_id):
            if each.parent_id is not None:
                below[each.parent_id].append(each.id)
        return below

    def _sum_teams(self, org_id: str, sums: Mapping[str, UsageSum]) -> dict[str, UsageSum]:
        """Return the sums of each workspace that has others below it, with theirs."""
        below, found = self._below(org_id), dict[str, UsageSum]()
        parents = {each.id: each.parent_id for each in self._org.all_with_removed(org_id)}
        for workspace_id, own in sums.items():
            above: str | None = workspace_id
            while above is not None:
                if below[above]:
                    found[above] = found.get(above, UsageSum()) + own
                above = parents.get(above)
        return found

    async def _to_report(
        self,
        org_id: str,
        span: UsageRange,
        by: UsageGrouping,
        sums: Mapping[str, UsageSum],
        total: UsageSum,
        names: Mapping[str, str | None] | None = None,
    ) -> UsageReport:
        prices = await self._usage.get_prices(org_id)
        rows = [_to_row(key, self._name_of(key, by, names or {}), each) for key, each in sums.items()]
        if by is UsageGrouping.DAY:
            rows.sort(key=lambda each: each.key)
        else:
            rows.sort(key=lambda each: (-each.cost_micros, -each.output_tokens, each.key))
        most = self._limits.page_rows
        return UsageReport(
            since=span.since,
            until=span.until,
            by=by.value,
            currency=prices.currency,
            rows=rows[:most],
            total=_to_row("", None, total),
            is_complete=len(rows) <= most,
        )

    def _name_of(self, key: str, by: UsageGrouping, names: Mapping[str, str | None]) -> str | None:
        if by in (UsageGrouping.AGENT, UsageGrouping.TEAM):
            workspace = self._org.workspace(key)
            return None if workspace is None else workspace.name
        return names.get(key)


def _total(sums: Iterable[UsageSum]) -> UsageSum:
    return sum(sums, UsageSum())


def _to_row(key: str, name: str | None, found: UsageSum) -> UsageRow:
    return UsageRow(
        key=key,
        name=name,
        turns=found.turns,
        turns_without_cost=found.unpriced,
        input_tokens=found.input_tokens,
        cached_tokens=found.cached_tokens,
        output_tokens=found.output_tokens,
        cost_micros=found.cost_micros,
    )
