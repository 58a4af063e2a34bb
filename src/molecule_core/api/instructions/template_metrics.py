"""Routes of message outcomes by template version, and of canaries."""

from typing import Annotated

from msgspec import Meta, Struct

from molecule_core.access.model import Role
from molecule_core.api.http.response import Response
from molecule_core.api.routing import PERSON_OR_ADMIN, AccessPolicy, Request, Route, WorkspaceScope, json_response
from molecule_core.common.clock import to_rfc3339
from molecule_core.instructions.canaries import FULL_SHARE, CanaryWriter
from molecule_core.instructions.model import ActiveVersion
from molecule_core.messages.template_outcomes import CanaryMonitor
from molecule_core.wire.schemas.template_metrics import TemplateMetrics, TemplateRollout


class CanaryBody(Struct, forbid_unknown_fields=True):
    """The share of messages that a version gets, in percent: 0 ends its trial, 100 activates it."""

    version: Annotated[int, Meta(ge=1, lt=1 << 31)]
    percent: Annotated[int, Meta(ge=0, le=FULL_SHARE)]


class TemplateMetricsRoutes:
    """Routes of template metrics and canaries."""

    def __init__(self, canary_monitor: CanaryMonitor, canary_writer: CanaryWriter) -> None:
        self._canary_monitor = canary_monitor
        self._canary_writer = canary_writer

    def routes(self) -> list[Route]:
        """Return the routes."""
        own = AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.NONE, Role.OWNER)
        one = "/orgs/{org_id}/instruction-templates/{template_id}"
        metrics_summary, canary_summary = (
            "Get message outcomes by version of a template",
            "Set the canary of a template",
        )
        return [
            Route("GET", f"{one}/figures", self.get_template_metrics, own, metrics_summary, None, TemplateMetrics),
            Route("POST", f"{one}/canary", self.set_canary, own, canary_summary, CanaryBody, TemplateRollout),
        ]

    async def get_template_metrics(self, request: Request) -> Response:
        """Return message outcomes by version, of the newest 10,000 stored messages of each."""
        return json_response(
            await self._canary_monitor.template_metrics(request.path_params["org_id"], _template_id(request))
        )

    async def set_canary(self, request: Request) -> Response:
        """Set the share of messages that a version gets.

        A canary that performs worse ends automatically. The comparison counts from the last change.
        """
        body = request.parse_body(CanaryBody)
        by = request.caller.key
        active = await self._canary_writer.set_share(
            request.path_params["org_id"], _template_id(request), body.version, body.percent, by
        )
        return json_response(_share_row(active))


def _template_id(request: Request) -> str:
    return request.path_param("template_id", "instruction template")


def _share_row(active: ActiveVersion) -> TemplateRollout:
    return TemplateRollout(active.id, active.version, active.canary, active.percent, to_rfc3339(active.since))
