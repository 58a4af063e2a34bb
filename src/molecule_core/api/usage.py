"""Routes of usage: agents report what their turns used, people read sums and edit prices."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

from molecule_core.access.model import Role
from molecule_core.api.http.response import Response
from molecule_core.api.query_parameters import (
    QueryParameters,
    enum_param,
    parse_time,
    query_params,
    read_text_param,
    string_param,
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
from molecule_core.common.clock import SECOND, Clock, to_rfc3339
from molecule_core.common.errors import InvalidField
from molecule_core.common.text import is_valid_client_id
from molecule_core.usage.model import ModelPrice, PriceList, UsageDraft, UsageRecord, UsageTokens
from molecule_core.usage.reader import UsageReader
from molecule_core.usage.writer import PriceWriter, UsageWriter
from molecule_core.views.usage import UsageRange, UsageReportReader
from molecule_core.wire.schemas.usage import (
    ModelPriceItem,
    PriceListBody,
    PriceListView,
    ReportUsageBody,
    UsageGrouping,
    UsageRecordView,
    UsageReport,
)

_DEFAULT_DAYS = 30
# Requests cross workspaces.
_OF_WORKSPACE = tuple(each for each in UsageGrouping if each is not UsageGrouping.REQUEST)


class UsageRoutes:
    """Routes of usage."""

    def __init__(
        self, usage: UsageWriter, prices: PriceWriter, reader: UsageReader, reports: UsageReportReader, *, clock: Clock
    ) -> None:
        self._writer = usage
        self._prices = prices
        self._reader = reader
        self._reports = reports
        self._clock = clock

    def routes(self) -> list[Route]:
        """Return the routes."""
        org, people = "/orgs/{org_id}/usage", AccessPolicy(PERSON_OR_ADMIN)
        return [
            Route(
                "GET",
                org,
                self.report_org,
                people,
                "Sum up what agents used",
                None,
                UsageReport,
                query=_query(tuple(UsageGrouping)),
            ),
            Route(
                "GET",
                "/workspaces/{id}/usage",
                self.report_workspace,
                AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.OWN),
                "Sum up what a workspace and those below it used",
                None,
                UsageReport,
                query=_query(_OF_WORKSPACE),
            ),
            Route("GET", f"{org}/prices", self.get_prices, people, "Get the prices of models", None, PriceListView),
            Route(
                "PUT",
                f"{org}/prices",
                self.replace_prices,
                AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.NONE, Role.OPERATOR),
                "Replace the prices of models",
                PriceListBody,
                PriceListView,
            ),
            Route(
                "POST",
                "/workspaces/{id}/usage",
                self.report_usage,
                AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.OWN, Role.OPERATOR),
                "Report what a turn used",
                ReportUsageBody,
                UsageRecordView,
                201,
            ),
        ]

    async def report_org(self, request: Request) -> Response:
        """Return the tokens and costs of an organisation in a range of days."""
        query = request.query_params()
        span, by = self._read_range(query, request.limits.usage_range_days), _read_grouping(query, tuple(UsageGrouping))
        return json_response(await self._reports.report_org(request.path_params["org_id"], span, by))

    async def report_workspace(self, request: Request) -> Response:
        """Return the tokens and costs of a workspace and all below it in a range of days."""
        query = request.query_params()
        span, by = self._read_range(query, request.limits.usage_range_days), _read_grouping(query, _OF_WORKSPACE)
        return json_response(await self._reports.report_subtree(request.workspace, span, by))

    def _read_range(self, query: Mapping[str, str], most_days: int) -> UsageRange:
        today = datetime.fromtimestamp(self._clock.now() // SECOND, UTC).date()
        last = _read_day(query, "to") or today
        earliest = date.min + timedelta(_DEFAULT_DAYS)
        first = _read_day(query, "from") or max(earliest, last) - timedelta(_DEFAULT_DAYS - 1)
        days = (last - first).days + 1
        if not 1 <= days <= most_days:
            raise InvalidField(reason=f"from and to cannot be {days} days. Use a range of 1 to {most_days} days.")
        since_at = int(datetime(first.year, first.month, first.day, tzinfo=UTC).timestamp()) * SECOND
        return UsageRange(first.isoformat(), last.isoformat(), since_at, days)

    async def get_prices(self, request: Request) -> Response:
        """Return the prices from which costs are computed that programs do not report."""
        return json_response(_price_list_view(await self._reader.get_prices(request.path_params["org_id"])))

    async def replace_prices(self, request: Request) -> Response:
        """Replace the prices of an organisation. What was recorded before keeps its cost."""
        body = request.parse_body(PriceListBody)
        prices = [
            ModelPrice(each.model, each.input_micros, each.cached_micros, each.output_micros) for each in body.prices
        ]
        org_id = request.path_params["org_id"]
        return json_response(
            _price_list_view(await self._prices.replace_prices(org_id, body.currency, prices, request.caller.name))
        )

    async def report_usage(self, request: Request) -> Response:
        """Record the tokens and the cost of a turn. A repeated report returns the record as it is."""
        body = request.parse_body(ReportUsageBody)
        for name, text in (("activity_id", body.activity_id), ("thread_id", body.thread_id)):
            if text is not None and not is_valid_client_id(text, request.limits.id_length):
                raise InvalidField(reason=f"{name} is not a valid id. Use an id of the server, or leave it out.")
        draft = UsageDraft(
            key=body.key,
            tokens=UsageTokens(body.input_tokens, body.cached_tokens, body.output_tokens),
            activity_id=body.activity_id,
            thread_id=body.thread_id,
            model=body.model,
            cost_micros=body.cost_micros,
            currency=body.currency,
            at=None if body.at is None else parse_time(body.at, "at"),
        )
        record = await self._writer.record(request.workspace.org_id, request.workspace.id, draft)
        return json_response(_record_view(record), 201)


def _read_day(query: Mapping[str, str], name: str) -> date | None:
    text = read_text_param(query, name)
    try:
        return None if text is None else datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).date()
    except ValueError:
        raise InvalidField(reason=f"{name} is not a day. Use a form such as 2026-11-21.") from None


def _query(groupings: Sequence[UsageGrouping]) -> QueryParameters:
    return query_params(
        string_param("from", "First day, as YYYY-MM-DD in UTC; 29 days before the last one if missing."),
        string_param("to", "Last day; today if missing."),
        enum_param("by", "What the rows are sums of; agent if missing.", groupings),
    )


def _read_grouping(query: Mapping[str, str], allowed: Sequence[UsageGrouping]) -> UsageGrouping:
    text = read_text_param(query, "by")
    if text is not None and text not in allowed:
        raise InvalidField(reason=f"by has an unknown value. Use one of: {', '.join(allowed)}.")
    return UsageGrouping(text or UsageGrouping.AGENT)


def _price_list_view(found: PriceList) -> PriceListView:
    return PriceListView(
        currency=found.currency,
        prices=[
            ModelPriceItem(each.model, each.input_micros, each.output_micros, each.cached_micros)
            for each in found.prices
        ],
        version=found.version,
        changed_at=to_rfc3339(found.changed_at) if found.version else None,
        changed_by=found.changed_by if found.version else None,
    )


def _record_view(record: UsageRecord) -> UsageRecordView:
    return UsageRecordView(
        key=record.key,
        workspace_id=record.workspace_id,
        thread_id=record.thread_id,
        activity_id=record.activity_id,
        delegation_id=record.delegation_id,
        root_id=record.root_id,
        model=record.model,
        input_tokens=record.input_tokens,
        cached_tokens=record.cached_tokens,
        output_tokens=record.output_tokens,
        cost_micros=record.cost_micros,
        source=record.source.value,
        at=to_rfc3339(record.at),
    )
