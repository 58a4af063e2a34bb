"""Routes of usage: agents report what their turns used."""

from datetime import datetime

from molecule_core.access.model import Role
from molecule_core.api.http.response import Response
from molecule_core.api.routing import ALL_CREDENTIALS, AccessPolicy, Request, Route, WorkspaceScope, json_response
from molecule_core.common.clock import SECOND, to_rfc3339
from molecule_core.common.errors import InvalidField
from molecule_core.common.text import is_valid_client_id
from molecule_core.usage.model import UsageDraft, UsageRecord, UsageTokens
from molecule_core.usage.writer import UsageWriter
from molecule_core.wire.schemas.usage import ReportUsageBody, UsageRecordView


class UsageRoutes:
    """Routes of usage."""

    def __init__(self, writer: UsageWriter) -> None:
        self._writer = writer

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route(
                "POST",
                "/workspaces/{id}/usage",
                self.report_usage,
                AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.OWN, Role.OPERATOR),
                "Report what a turn used",
                ReportUsageBody,
                UsageRecordView,
                201,
            )
        ]

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
            at=None if body.at is None else _to_micros(body.at),
        )
        record = await self._writer.record(request.workspace.org_id, request.workspace.id, draft)
        return json_response(_record_view(record), 201)


def _to_micros(at: datetime) -> int:
    return int(at.timestamp()) * SECOND + at.microsecond


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
