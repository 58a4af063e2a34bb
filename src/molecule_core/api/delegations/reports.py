"""Routes by which both sides of a delegation report on it: that it exists, its progress, and its end."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from molecule_core.api.delegations.access import DelegationAccess
from molecule_core.api.delegations.progress_throttle import ProgressThrottle
from molecule_core.api.http.response import Response
from molecule_core.api.messages.send import message_parts, sender_of
from molecule_core.api.rate_limits import SEND_RATE
from molecule_core.api.routing import WORKSPACE, AccessPolicy, Request, Route, WorkspaceScope, json_response
from molecule_core.common.errors import InvalidField, InvalidMessage
from molecule_core.common.limits import Limits
from molecule_core.common.text import ID_ALPHABET, is_valid_client_id, single_line
from molecule_core.delegations.model import Delegation, ProgressReport
from molecule_core.delegations.reader import DelegationReader
from molecule_core.delegations.writer import DelegationWriter, check_worker
from molecule_core.org.reader import OrgReader
from molecule_core.wire.schemas.delegations import (
    RecordDelegationResponse,
    ReportProgressResponse,
    UpdateDelegationResponse,
)

_RECORDED, _NOTED = "recorded", "noted"
_COMPLETED = "completed"
_MAX_TOOLS, _MAX_TOOL_LENGTH = 20, 100


class RecordDelegationBody(Struct):
    """A task that was delegated outside the server, under the caller's own id."""

    target_id: str
    task: str
    delegation_id: str


class UpdateDelegationBody(Struct):
    """How work has ended. `result` is the whole answer; older agents send only `response_preview`."""

    status: Literal["completed", "failed"]
    error: str | None = None
    response_preview: str | None = None
    result: str | None = None


class ReportProgressBody(Struct):
    """Progress of work, in the worker's own words. What is left out stays as it was reported before."""

    current_step: str | UnsetType = UNSET
    tools_used: (
        Annotated[list[Annotated[str, Meta(max_length=_MAX_TOOL_LENGTH)]], Meta(max_length=_MAX_TOOLS)] | UnsetType
    ) = UNSET
    eta_hint: str | UnsetType = UNSET
    percent: Annotated[int, Meta(ge=0, le=100)] | UnsetType | None = UNSET


class DelegationReportRoutes:
    """Routes of reports about delegations."""

    def __init__(
        self,
        writer: DelegationWriter,
        reader: DelegationReader,
        throttle: ProgressThrottle,
        org: OrgReader,
        catch_up: Callable[[], Awaitable[None]],
        *,
        limits: Limits,
    ) -> None:
        self._writer = writer
        self._throttle = throttle
        self._access = DelegationAccess(reader)
        self._org = org
        self._catch_up = catch_up
        self._limits = limits

    def routes(self) -> list[Route]:
        """Return the routes."""
        every, own = "/workspaces/{id}/delegations", AccessPolicy(frozenset((WORKSPACE,)), WorkspaceScope.OWN)
        record, update = f"{every}/record", f"{every}/{{delegation_id}}/update"
        status, by_id = f"{every}/{{delegation_id}}/status", "/delegations/{delegation_id}/status"
        worker = AccessPolicy(frozenset((WORKSPACE,)))
        return [
            Route(
                "POST",
                record,
                self.record_delegation,
                own,
                "Record a delegation made outside the server",
                RecordDelegationBody,
                RecordDelegationResponse,
                202,
                rate_class=SEND_RATE,
            ),
            Route(
                "POST",
                update,
                self.update_delegation,
                own,
                "End a received or recorded delegation",
                UpdateDelegationBody,
                UpdateDelegationResponse,
            ),
            Route(
                "POST",
                status,
                self.report_as_workspace,
                own,
                "Report progress of a delegation",
                ReportProgressBody,
                ReportProgressResponse,
            ),
            Route(
                "POST",
                by_id,
                self.report_progress,
                worker,
                "Report progress of a delegation",
                ReportProgressBody,
                ReportProgressResponse,
            ),
        ]

    async def record_delegation(self, request: Request) -> Response:
        """Record a task that the workspace delegated outside the server.

        No message is sent, and the workspace itself reports the end. The same id again returns the first record.
        """
        report = request.parse_body(RecordDelegationBody)
        limit = self._limits.id_length
        if not is_valid_client_id(report.delegation_id, limit):
            raise InvalidField(reason=f"delegation_id is not valid. Use 1 to {limit} characters of {ID_ALPHABET}.")
        message_parts(report.task, [], self._limits)  # the same limits as for any task
        if self._org.workspace(report.target_id) is None:  # another process may just have created it
            await self._catch_up()
        receipt = await self._writer.record(
            request.workspace.id, report.delegation_id, report.target_id, report.task, sender_of(request.caller)
        )
        return json_response(RecordDelegationResponse(receipt.row.id, _RECORDED, receipt.is_duplicate), 202)

    async def update_delegation(self, request: Request) -> Response:
        """End a delegation that the workspace received or recorded itself.

        An ended delegation is returned unchanged, and the report is stored as late.
        """
        report = request.parse_body(UpdateDelegationBody)
        row = await self._access.find_as_party(request)
        text = report.result or report.response_preview or ""
        if report.status == _COMPLETED and not row.recorded:
            message_parts(text, [], self._limits)  # `completed` requires an answer as evidence
        elif len(text.encode()) > self._limits.text_bytes:
            raise InvalidMessage(
                reason=f"the text is larger than the limit of {self._limits.text_bytes} bytes. Shorten it."
            )
        error = self._clean_line(report.error or "")
        current = await self._writer.update(row, sender_of(request.caller), report.status, text, error)
        return json_response(UpdateDelegationResponse(current.id, current.status.value))

    async def report_as_workspace(self, request: Request) -> Response:
        """Report progress of a delegation that the workspace received.

        The newest report is shown with the delegation; the status does not change.
        """
        report = self._parse_progress(request)
        return await self._report_response(request, await self._access.find_as_party(request), report)

    async def report_progress(self, request: Request) -> Response:
        """Report progress of a delegation as its worker.

        The newest report is shown with the delegation; the status does not change.
        """
        report = self._parse_progress(request)
        return await self._report_response(request, await self._access.find_visible(request), report)

    async def _report_response(self, request: Request, row: Delegation, report: ProgressReport) -> Response:
        by = sender_of(request.caller)
        check_worker(row, by)
        current = row if row.status.is_ended else await self._throttle.report(row, by, report)
        return json_response(ReportProgressResponse(_NOTED, not current.status.is_ended, current.status.value))

    def _parse_progress(self, request: Request) -> ProgressReport:
        report = request.parse_body(ReportProgressBody)
        tools = report.tools_used
        return ProgressReport(
            self._clean_line_if_set(report.current_step),
            tools if tools is UNSET else tuple(map(self._clean_line, tools)),
            self._clean_line_if_set(report.eta_hint),
            report.percent,
        )

    def _clean_line_if_set(self, text: str | UnsetType) -> str | UnsetType:
        return text if text is UNSET else self._clean_line(text)

    def _clean_line(self, text: str) -> str:
        return single_line(text, self._limits.short_text_length)
