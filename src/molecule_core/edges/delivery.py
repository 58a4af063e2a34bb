"""What became of a message, dead letters, and mail that nobody takes."""

from msgspec import UNSET

from molecule_core.access.model import Kind, Role
from molecule_core.delegations.model import Status as Done
from molecule_core.delegations.reader import DelegationReader
from molecule_core.delegations.rules import queue_status
from molecule_core.edges.query import BEFORE, LIMIT, asks, plain_text, whole_number
from molecule_core.edges.routes import EVERYBODY, PEOPLE, Answer, Call, Reach, Route, Who, json_answer
from molecule_core.ground.clock import rfc3339
from molecule_core.ground.errors import NotFound
from molecule_core.messages.letters import Letters
from molecule_core.messages.model import KIND_DELEGATION
from molecule_core.messages.pushed import MessageState
from molecule_core.messages.tracking import Tracking
from molecule_core.wire.delivery import DeadLetterPage, QueueStatus, Ticks, UntakenPage

_USUAL_PAGE = 100


class DeliveryEdge:
    """The routes of ticks, queues, dead letters and mail that waits."""

    def __init__(self, tracking: Tracking, letters: Letters, delegated: DelegationReader) -> None:
        self._delegated = delegated
        self._tracking = tracking
        self._letters = letters

    def routes(self) -> list[Route]:
        """The rows for the table."""
        one = "/workspaces/{id}"
        follow = Who(EVERYBODY, Reach.TALK, Role.VIEWER)
        view = Who(PEOPLE, Reach.OWN, Role.VIEWER)
        operate = Who(PEOPLE, Reach.OWN, Role.OPERATOR)
        letter = f"{one}/dead-letters/{{activity_id}}"
        of_org = "/orgs/{org_id}/dead-letters"
        paged = asks(LIMIT, BEFORE)
        return [
            Route(
                "GET", f"{one}/a2a/queue/{{queue_id}}", self.queue, follow, "How a message stands", None, QueueStatus
            ),
            Route("GET", f"{one}/messages/{{activity_id}}/ticks", self.ticks, follow, "What became of it", None, Ticks),
            Route(
                "GET", of_org, self.letters_of_org, Who(PEOPLE), "What was given up", None, DeadLetterPage, query=paged
            ),
            Route(
                "GET",
                f"{one}/dead-letters",
                self.letters_of,
                view,
                "The same of one seat",
                None,
                DeadLetterPage,
                query=paged,
            ),
            Route(
                "GET", "/orgs/{org_id}/untaken", self.untaken, Who(PEOPLE), "Whose mail nobody takes", None, UntakenPage
            ),
            Route("POST", f"{letter}/requeue", self.requeue, operate, "Hand a dead letter out again"),
            Route("DELETE", letter, self.discard, operate, "Be done with a dead letter"),
        ]

    async def queue(self, call: Call) -> Answer:
        """How a message stands on its way to an agent. What carries a delegation stands as that does: to be handled is
        not to be done."""
        state = await self._state(call, call.named("queue_id", "message"))
        told = await self._tracking.queue(state)
        if state.kind == KIND_DELEGATION:
            row = await self._delegated.one(call.target.org_id, state.id)
            told.status = queue_status(row)
            ended = row.settled_at if row.status is Done.COMPLETED else None
            told.completed_at = UNSET if ended is None else rfc3339(ended)
        return json_answer(told)

    async def ticks(self, call: Call) -> Answer:
        """All that became of a message, and why it does not go on."""
        return json_answer(await self._tracking.ticks(await self._state(call, call.named("activity_id", "message"))))

    async def _state(self, call: Call, activity_id: str) -> MessageState:
        """A message that the caller sent or got, or that is of the person's organisation; any other is unknown."""
        state = await self._tracking.state(call.target.id, activity_id)
        if call.by.kind is Kind.WORKSPACE and call.by.id not in (call.target.id, state.source_id):
            raise NotFound(what="message")
        return state

    async def letters_of_org(self, call: Call) -> Answer:
        """The dead letters of an organisation, newest first."""
        return await self._page(call, call.params["org_id"], None)

    async def letters_of(self, call: Call) -> Answer:
        """The dead letters of one seat, newest first."""
        return await self._page(call, call.target.org_id, call.target.id)

    async def _page(self, call: Call, org_id: str, workspace_id: str | None) -> Answer:
        query = call.query()
        count = whole_number(query, "limit", least=1, most=call.limits.page_rows) or _USUAL_PAGE
        before = plain_text(query, "before")
        count = min(count, call.limits.page_rows)
        return json_answer(await self._tracking.letters(org_id, count, workspace_id=workspace_id, before=before))

    async def untaken(self, call: Call) -> Answer:
        """Workspaces where messages that want an answer have waited for long and nobody has had them: the agent is
        paused, is not there, or does not come for its mail. The longest waiting first, as many as `untaken_rows`."""
        return json_answer(await self._tracking.untaken(call.params["org_id"]))

    async def requeue(self, call: Call) -> Answer:
        """The same message is handed out again."""
        activity_id = call.named("activity_id", "dead letter")
        await self._letters.requeue(call.target.id, activity_id)
        return json_answer({"status": "requeued", "activity_id": activity_id})

    async def discard(self, call: Call) -> Answer:
        """The message stays in the log, but nobody gets it any more."""
        activity_id = call.named("activity_id", "dead letter")
        await self._letters.discard(call.target.id, activity_id)
        return json_answer({"status": "discarded", "activity_id": activity_id})
