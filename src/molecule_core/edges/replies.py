"""Answers by handle, questions with options, drafts, and who owes an answer."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from molecule_core.access.model import Role
from molecule_core.edges.messages import checked_key, parts_of
from molecule_core.edges.query import BEFORE, LIMIT, asks, choice, plain_text, whole_number
from molecule_core.edges.rates import SENDING
from molecule_core.edges.routes import EVERYBODY, PEOPLE, WORKSPACE, Answer, Call, Reach, Route, Who, json_answer
from molecule_core.ground.errors import InvalidField, InvalidMessage
from molecule_core.ground.limits import Limits
from molecule_core.ground.metrics import MessageMeter
from molecule_core.ground.text import ID_ALPHABET, clean_line, is_client_id, plain_line
from molecule_core.messages.model import Line
from molecule_core.messages.replies import Replied as Done
from molecule_core.messages.replies import Replies
from molecule_core.messages.tracking import OF_ORG, STATES, Tracking
from molecule_core.messages.writer import MessageWriter
from molecule_core.wire.obligations import DraftState, ObligationPage, Replied

_USUAL_PAGE = 100


class Reply(Struct):
    """An answer to the message that `handle` names. With `progress` it only says that somebody is at work on it."""

    handle: str
    text: str = ""
    progress: bool = False
    attachments: list[dict[str, Any]] = []
    messageId: str | None = None


class Decline(Struct):
    """There will be no answer to the message that `handle` names."""

    handle: str
    reason: str


class Question(Struct):
    """A question to the user, with answers to choose from."""

    question: str
    options: Annotated[list[str], Meta(min_length=1)]
    in_reply_to: str | None = None


class Said(Struct):
    """What an agent said in answer to a message and did not send."""

    text: str


class SendDraft(Struct):
    """The words to send instead of those that were kept."""

    text: str | None = None


class ReplyEdge:
    """The routes of answers."""

    def __init__(
        self, replies: Replies, writer: MessageWriter, tracking: Tracking, counted: MessageMeter, *, limits: Limits
    ) -> None:
        self._replies = replies
        self._writer = writer
        self._tracking = tracking
        self._counted = counted
        self._limits = limits

    def routes(self) -> list[Route]:
        """The rows for the table."""
        one = "/workspaces/{id}"
        own_agent = Who(frozenset((WORKSPACE,)), Reach.OWN)
        operate = Who(PEOPLE, Reach.OWN, Role.OPERATOR)
        draft = f"{one}/messages/{{activity_id}}/draft"
        page = ObligationPage
        of_one = asks(LIMIT, BEFORE, choice("state", "How they stand; open if left out.", STATES))
        of_all = asks(LIMIT, BEFORE, choice("state", "How they stand; unanswered if left out.", OF_ORG))
        return [
            Route("POST", f"{one}/reply", self.reply, own_agent, "Answer a message", Reply, Replied, counts=SENDING),
            Route("POST", f"{one}/decline", self.decline, own_agent, "Decline one", Decline, Replied, counts=SENDING),
            Route("POST", f"{one}/options", self.ask, own_agent, "Ask the user to choose", Question, counts=SENDING),
            Route(
                "POST", draft, self.keep, own_agent, "Keep what was said, not sent", Said, DraftState, counts=SENDING
            ),
            Route("POST", f"{draft}/send", self.send, operate, "Send what was kept", SendDraft, DraftState, bare=True),
            Route("POST", f"{draft}/discard", self.discard, operate, "Forget what was kept", None, DraftState),
            Route(
                "GET",
                f"{one}/obligations",
                self.of_workspace,
                Who(EVERYBODY, Reach.OWN, Role.VIEWER),
                "What a workspace owes answers for",
                None,
                page,
                query=of_one,
            ),
            Route(
                "GET",
                "/orgs/{org_id}/obligations",
                self.of_org,
                Who(PEOPLE),
                "Who leaves messages",
                None,
                page,
                query=of_all,
            ),
        ]

    # -- answering -----------------------------------------------------------------------------------------------------

    async def reply(self, call: Call) -> Answer:
        """An answer by handle, from which it is known whom it goes to; the message is acknowledged with it. A second
        answer by the same handle gives the result of the first."""
        said = call.read(Reply)
        parts = parts_of(said.text, said.attachments, self._limits)
        key = checked_key(call, self._limits) or _message_id(said.messageId, self._limits)
        done = await self._replies.reply(call.target.id, said.handle, parts, progress=said.progress, key=key)
        self._counted.accepted += 1
        return _told(done)

    async def decline(self, call: Call) -> Answer:
        """Says why there will be no answer: a person sees it at the message, a peer is told."""
        said = call.read(Decline)
        reason = plain_line(said.reason, self._limits.short_text_length)
        if not reason:
            raise InvalidMessage(reason="reason is empty; say why there will be no answer")
        return _told(await self._replies.decline(call.target.id, said.handle, reason))

    async def ask(self, call: Call) -> Answer:
        """A message with buttons. What is chosen comes as a message of the user, with `option_of` and `option` in its
        metadata. To ask back is an answer: the newest message of the user is not owed one any more."""
        asked = call.read(Question)
        parts = parts_of(asked.question, [], self._limits)
        metadata: dict[str, Any] = {"options": self._options(asked.options)}
        if asked.in_reply_to is not None:
            metadata["in_reply_to"] = asked.in_reply_to
        receipt = await self._writer.notify(call.target.id, Line(parts, checked_key(call, self._limits), metadata))
        return json_answer({"status": "sent", "activity_id": receipt.activity_id})

    def _options(self, given: list[str]) -> list[str]:
        if len(given) > self._limits.options:
            raise InvalidField(reason=f"at most {self._limits.options} options can be chosen from")
        options = [clean_line(each, self._limits.option_length, "options") for each in given]
        if not all(each.strip() for each in options) or len(set(options)) < len(options):
            raise InvalidField(reason="each option must be a text of its own")
        return options

    # -- drafts --------------------------------------------------------------------------------------------------------

    async def keep(self, call: Call) -> Answer:
        """A final text that was sent nowhere. It is kept for a person, or sent at once if the workspace is set so; one
        for a message that is answered already is not needed."""
        text = self._text(call.read(Said).text)
        state = await self._replies.keep_draft(call.target.id, call.named("activity_id", "message"), text)
        return json_answer(DraftState(state))

    async def send(self, call: Call) -> Answer:
        """Sends it as the workspace, and so answers the message."""
        words = call.read(SendDraft).text
        text = None if words is None else self._text(words)
        receipt = await self._replies.send_draft(call.target.id, call.named("activity_id", "message"), text)
        return json_answer(DraftState("answered", receipt.activity_id))

    async def discard(self, call: Call) -> Answer:
        """The message waits for an answer as before."""
        state = await self._replies.discard_draft(call.target.id, call.named("activity_id", "message"))
        return json_answer(DraftState(state))

    def _text(self, text: str) -> str:
        (part,) = parts_of(text, [], self._limits)
        return str(part["text"])

    # -- who owes ------------------------------------------------------------------------------------------------------

    async def of_workspace(self, call: Call) -> Answer:
        """Newest first; `state` is open if left out (all that is not closed), or unanswered (overdue or answered
        outside), overdue, answered_outside, answered, declined or all."""
        query = call.query()
        state, before = _state(query, "open", STATES), plain_text(query, "before")
        page = await self._tracking.obligations(call.target.id, state, self._count(query), before)
        return json_answer(page)

    async def of_org(self, call: Call) -> Answer:
        """The same of all workspaces, where somebody waits in vain: `state` is unanswered if left out, or overdue or
        answered_outside."""
        query = call.query()
        state, before = _state(query, "unanswered", OF_ORG), plain_text(query, "before")
        page = await self._tracking.unanswered(call.params["org_id"], state, self._count(query), before)
        return json_answer(page)

    def _count(self, query: dict[str, str]) -> int:
        most = self._limits.page_rows
        return whole_number(query, "limit", least=1, most=most) or min(_USUAL_PAGE, most)


def _state(query: dict[str, str], usual: str, known: tuple[str, ...]) -> str:
    state = plain_text(query, "state") or usual
    if state not in known:
        raise InvalidField(reason=f"state must be one of {', '.join(known)}")
    return state


def _message_id(given: str | None, limits: Limits) -> str | None:
    if given is not None and not is_client_id(given, limits.id_length):
        raise InvalidMessage(reason=f"messageId must be at most {limits.id_length} characters of {ID_ALPHABET}")
    return given


def _told(done: Done) -> Answer:
    told = Replied(
        status="declined" if done.state == "declined" else "sent",
        activity_id="" if done.receipt is None else done.receipt.activity_id,
        answers=done.asked.id,
        peer_id=done.asked.source_id or "",
        state=done.state,
        acknowledged=done.acknowledged,
    )
    return Answer(msgspec.json.encode(told))
