"""Routes of runners: operators enrol them and request things of them; runners report, claim and confirm."""

from molecule_core.access.model import Role
from molecule_core.api.http.response import Response
from molecule_core.api.live.hub import LiveHub
from molecule_core.api.query_parameters import WAIT, query_params, read_int_param
from molecule_core.api.routing import (
    PERSON_OR_ADMIN,
    RUNNER,
    AccessPolicy,
    Request,
    Route,
    WorkspaceScope,
    json_response,
)
from molecule_core.common.errors import InvalidField
from molecule_core.runners.model import RunnerRequestDraft
from molecule_core.runners.reader import RunnerReader
from molecule_core.runners.writer import RunnerWriter
from molecule_core.wire.schemas.runners import (
    ClaimedRunnerRequests,
    ClaimRunnerRequestsBody,
    ConfirmRunnerRequestBody,
    ConfirmRunnerRequestResponse,
    EnrolRunnerBody,
    RemovedRunnerResponse,
    ReportRunnerResponse,
    RequestRunnerBody,
    RunnerReport,
    RunnerRequestView,
    RunnerView,
)

_ENDED_REASON = "the runner no longer runs this agent"


class RunnerRoutes:
    """Routes of runners."""

    def __init__(self, writer: RunnerWriter, reader: RunnerReader, live: LiveHub) -> None:
        self._writer = writer
        self._reader = reader
        self._live = live

    def routes(self) -> list[Route]:
        """Return the routes."""
        runners, own = "/orgs/{org_id}/runners", AccessPolicy(frozenset((RUNNER,)))
        one = f"{runners}/{{runner_id}}"
        operator = AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.NONE, Role.OPERATOR)
        return [
            Route("GET", runners, self.list_runners, operator, "List the runners", None, list[RunnerView]),
            Route("POST", runners, self.enrol_runner, operator, "Enrol a runner", EnrolRunnerBody, RunnerView, 201),
            Route("DELETE", one, self.remove_runner, operator, "Remove a runner", None, RemovedRunnerResponse),
            Route(
                "POST",
                f"{one}/requests",
                self.request_action,
                operator,
                "Request something of a runner",
                RequestRunnerBody,
                RunnerRequestView,
                201,
            ),
            Route(
                "GET",
                f"{one}/requests/{{request_id}}",
                self.get_request,
                operator,
                "Get a request to a runner and its outcome",
                None,
                RunnerRequestView,
                query=query_params(WAIT),
            ),
            Route(
                "POST",
                "/runner/report",
                self.report_runner,
                own,
                "Report what a runner is and runs",
                RunnerReport,
                ReportRunnerResponse,
            ),
            Route(
                "POST",
                "/runner/claim",
                self.claim_requests,
                own,
                "Claim requests to a runner",
                ClaimRunnerRequestsBody,
                ClaimedRunnerRequests,
                long_poll=True,
            ),
            Route(
                "POST",
                "/runner/requests/{request_id}/confirm",
                self.confirm_request,
                own,
                "Confirm a request to a runner",
                ConfirmRunnerRequestBody,
                ConfirmRunnerRequestResponse,
            ),
        ]

    async def list_runners(self, request: Request) -> Response:
        """List runners with what is installed on their machines, and the agents that they run."""
        return json_response(await self._reader.list_runners(request.path_params["org_id"]))

    async def enrol_runner(self, request: Request) -> Response:
        """Create a runner. Its token is shown only once; `molecule runner` connects with it."""
        body = request.parse_body(EnrolRunnerBody)
        enrolled = await self._writer.enrol(request.path_params["org_id"], body.name, request.caller.name)
        return json_response(self._reader.runner_view(enrolled.runner, (), enrolled.token), 201)

    async def remove_runner(self, request: Request) -> Response:
        """Remove a runner. Its token and those of its agents become invalid."""
        runner_id = request.path_param("runner_id", "runner")
        ended = await self._writer.remove(request.path_params["org_id"], runner_id)
        self._live.end_credentials(ended.hashes, _ENDED_REASON)
        return json_response(RemovedRunnerResponse("removed"))

    async def request_action(self, request: Request) -> Response:
        """Request that a runner starts, stops or restarts an agent, or returns its output.

        The runner checks kind, folder and mode against its own configuration and may refuse the request.
        """
        body, runner_id = request.parse_body(RequestRunnerBody), request.path_param("runner_id", "runner")
        workspace_id = body.workspace_id
        draft = RunnerRequestDraft(body.action, workspace_id, body.kind, body.folder, body.mode, request.caller.name)
        made = await self._writer.request(request.path_params["org_id"], runner_id, draft)
        return json_response(self._reader.request_view(made), 201)

    async def get_request(self, request: Request) -> Response:
        """Return a request and its outcome. `wait` (seconds) waits for the outcome."""
        wait = read_int_param(request.query_params(), "wait", minimum=0, maximum=request.limits.wait_seconds) or 0
        request_id, runner_id = request.path_param("request_id", "request"), request.path_param("runner_id", "runner")
        org_id = request.path_params["org_id"]
        return json_response(await self._reader.wait_for_request(org_id, runner_id, request_id, wait))

    async def report_runner(self, request: Request) -> Response:
        """Report machine, installed agents, allowed folders, and agents that run; replaces the last report."""
        report, caller = request.parse_body(RunnerReport), request.caller
        await self._writer.report(caller.org_id, caller.id, report)
        return json_response(ReportRunnerResponse("ok", request.limits.runner_silence_seconds // 2))

    async def claim_requests(self, request: Request) -> Response:
        """Claim open requests; `wait` (seconds) waits for one. A claimed request that is not confirmed comes again."""
        wait, most, caller = (
            request.parse_body(ClaimRunnerRequestsBody).wait,
            request.limits.wait_seconds,
            request.caller,
        )
        if wait > most:
            raise InvalidField(reason=f"wait is out of range. Use a whole number from 0 to {most}.")
        return json_response(ClaimedRunnerRequests(await self._writer.claim(caller.org_id, caller.id, wait)))

    async def confirm_request(self, request: Request) -> Response:
        """Confirm that a request was carried out, or say why not. A repetition changes nothing."""
        body, caller = request.parse_body(ConfirmRunnerRequestBody), request.caller
        request_id = request.path_param("request_id", "request")
        confirmed = await self._writer.confirm(caller.org_id, caller.id, request_id, body)
        self._live.end_credentials(confirmed.ended.hashes, _ENDED_REASON)
        return json_response(ConfirmRunnerRequestResponse(confirmed.status))
