"""Routes of delivery status, dead letters and unread mail."""

from msgspec import UNSET

from molecule_core.access.model import CredentialKind, Role
from molecule_core.api.http.response import Response
from molecule_core.api.query_parameters import BEFORE, LIMIT, query_params, read_int_param, read_text_param
from molecule_core.api.routing import (
    ALL_CREDENTIALS,
    PERSON_OR_ADMIN,
    AccessPolicy,
    Request,
    Route,
    WorkspaceScope,
    json_response,
)
from molecule_core.common.clock import to_rfc3339
from molecule_core.common.errors import NotFound
from molecule_core.delegations.reader import DelegationReader
from molecule_core.delegations.rules import queue_status
from molecule_core.messages.delivery.dead_letters import DeadLetterWriter
from molecule_core.messages.delivery.status_reader import DeliveryStatusReader
from molecule_core.messages.delivery_state import DeliveryState
from molecule_core.wire.schemas.activity import MessageKind
from molecule_core.wire.schemas.delegations import DelegationStatus
from molecule_core.wire.schemas.delivery import DeadLetterPage, MessageDeliveryLog, QueueStatus, StaleInboxPage

_DEFAULT_PAGE = 100


class DeliveryRoutes:
    """Routes of ticks, queue status, dead letters and unread mail."""

    def __init__(
        self, status_reader: DeliveryStatusReader, dead_letters: DeadLetterWriter, delegations: DelegationReader
    ) -> None:
        self._delegations = delegations
        self._status_reader = status_reader
        self._dead_letters = dead_letters

    def routes(self) -> list[Route]:
        """Return the routes."""
        one = "/workspaces/{id}"
        follow = AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.TALK, Role.VIEWER)
        view = AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.OWN, Role.VIEWER)
        operate = AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.OWN, Role.OPERATOR)
        dead_letter_path = f"{one}/dead-letters/{{activity_id}}"
        of_org = "/orgs/{org_id}/dead-letters"
        paged = query_params(LIMIT, BEFORE)
        return [
            Route(
                "GET",
                f"{one}/a2a/queue/{{queue_id}}",
                self.get_queue_status,
                follow,
                "Get the delivery status of a message",
                None,
                QueueStatus,
                keeps_history=True,
            ),
            Route(
                "GET",
                f"{one}/messages/{{activity_id}}/ticks",
                self.get_ticks,
                follow,
                "Get the delivery log of a message",
                None,
                MessageDeliveryLog,
                keeps_history=True,
            ),
            Route(
                "GET",
                of_org,
                self.list_org_dead_letters,
                AccessPolicy(PERSON_OR_ADMIN),
                "List the dead letters of an organisation",
                None,
                DeadLetterPage,
                query=paged,
            ),
            Route(
                "GET",
                f"{one}/dead-letters",
                self.list_dead_letters,
                view,
                "List the dead letters of a workspace",
                None,
                DeadLetterPage,
                query=paged,
                keeps_history=True,
            ),
            Route(
                "GET",
                "/orgs/{org_id}/untaken",
                self.list_untaken,
                AccessPolicy(PERSON_OR_ADMIN),
                "List workspaces with unread mail",
                None,
                StaleInboxPage,
            ),
            Route("POST", f"{dead_letter_path}/requeue", self.requeue_dead_letter, operate, "Requeue a dead letter"),
            Route("DELETE", dead_letter_path, self.discard_dead_letter, operate, "Discard a dead letter"),
        ]

    async def get_queue_status(self, request: Request) -> Response:
        """Return the delivery status of a message.

        A message that carries a delegation has the delegation's status: handling it does not complete the delegation.
        """
        state = await self._message_state(request, request.path_param("queue_id", "message"))
        status = await self._status_reader.queue_status(state)
        if state.kind == MessageKind.DELEGATION:
            row = await self._delegations.get_delegation(request.workspace.org_id, state.id)
            status.status = queue_status(row)
            ended = row.settled_at if row.status is DelegationStatus.COMPLETED else None
            status.completed_at = UNSET if ended is None else to_rfc3339(ended)
        return json_response(status)

    async def get_ticks(self, request: Request) -> Response:
        """Return the delivery log of a message, and the reason if its delivery is held up."""
        return json_response(
            await self._status_reader.get_delivery_log(
                await self._message_state(request, request.path_param("activity_id", "message"))
            )
        )

    async def _message_state(self, request: Request, activity_id: str) -> DeliveryState:
        """Return the state of a message that the caller sent or received, or that is of the person's organisation.

        Raises NotFound for any other.
        """
        state = await self._status_reader.get_state(request.workspace.id, activity_id)
        if request.caller.kind is CredentialKind.WORKSPACE and request.caller.id not in (
            request.workspace.id,
            state.source_id,
        ):
            raise NotFound(what="message")
        return state

    async def list_org_dead_letters(self, request: Request) -> Response:
        """List the dead letters of an organisation, newest first."""
        return await self._dead_letter_page(request, request.path_params["org_id"], None)

    async def list_dead_letters(self, request: Request) -> Response:
        """List the dead letters of a workspace, newest first."""
        return await self._dead_letter_page(request, request.workspace.org_id, request.workspace.id)

    async def _dead_letter_page(self, request: Request, org_id: str, workspace_id: str | None) -> Response:
        query = request.query_params()
        count = read_int_param(query, "limit", minimum=1, maximum=request.limits.page_rows) or _DEFAULT_PAGE
        before = read_text_param(query, "before")
        count = min(count, request.limits.page_rows)
        return json_response(
            await self._status_reader.list_dead_letters(org_id, count, workspace_id=workspace_id, before=before)
        )

    async def list_untaken(self, request: Request) -> Response:
        """List workspaces with unread mail, longest waiting first, at most `untaken_rows`.

        Counts messages that expect an answer and were not delivered for long: the agent is paused, offline or does not
        poll.
        """
        return json_response(await self._status_reader.list_stale_inboxes(request.path_params["org_id"]))

    async def requeue_dead_letter(self, request: Request) -> Response:
        """Queue a dead letter for delivery again."""
        activity_id = request.path_param("activity_id", "dead letter")
        await self._dead_letters.requeue(request.workspace.id, activity_id)
        return json_response({"status": "requeued", "activity_id": activity_id})

    async def discard_dead_letter(self, request: Request) -> Response:
        """Discard a dead letter. The message stays in the log and is not delivered again."""
        activity_id = request.path_param("activity_id", "dead letter")
        await self._dead_letters.discard(request.workspace.id, activity_id)
        return json_response({"status": "discarded", "activity_id": activity_id})
