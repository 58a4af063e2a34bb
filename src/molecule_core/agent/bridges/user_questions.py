"""Asks the questions of a session's program in the chat and waits for the answers.

An answer is the message of a click, or the next text of a person in the conversation that asked.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from molecule_core.agent.async_utils import sleep
from molecule_core.agent.backoff import BackOff
from molecule_core.agent.bridges.sessions import UserQuestion
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.client.api import expect_member
from molecule_core.common.clock import Clock
from molecule_core.common.ids import Randomness
from molecule_core.tools.runners.message_tools import idempotency_headers
from molecule_core.tools.runners.requester import Requester
from molecule_core.tools.spec import ToolError
from molecule_core.wire.schemas.inbox import InboxMessage

_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
# What the server accepts by default: ten options of 120 characters.
_MAX_OPTIONS, _MAX_LABEL = 10, 120


class _OpenQuestion:
    """A question that waits for its answer."""

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()


class UserQuestions:
    """Open questions of one workspace's bridge."""

    def __init__(self, workspace_id: str, requester: Requester, *, clock: Clock, randomness: Randomness) -> None:
        self._workspace_id = workspace_id
        self._requester = requester
        self._clock = clock
        self._randomness = randomness
        self._open: dict[str, _OpenQuestion] = {}
        self._presenting = 0
        """Questions that the server may have, and whose ids are not known yet."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when a question is open: its answer may have arrived before."""

    async def ask(self, conversation: str, questions: Sequence[UserQuestion], key: str) -> Mapping[str, str] | None:
        """Ask one question after the other; return the answers, or None if the server rejects a question."""
        answers = {}
        for number, question in enumerate(questions):
            try:
                self._presenting += 1
                activity_id = await self._present(question, f"{key}:{number}"[:128])
            except ToolError:
                return None
            finally:
                self._presenting -= 1
                self.on_change()
            entry = self._open[activity_id] = _OpenQuestion(conversation)
            try:
                answers[question.question] = await entry.answer
            finally:
                del self._open[activity_id]
        return answers

    def may_be_answered_by(self, message: InboxMessage) -> bool:
        """Return whether a message is a click on a question that will be open in a moment."""
        return bool(message.option_of) and message.option_of not in self._open and self._presenting > 0

    def take_answer(self, message: InboxMessage, conversation: str, *, is_new: bool) -> str | None:
        """Return the conversation whose question a message answers; it is then no message of its own. None: of none.

        A click names its question, from wherever it comes. A text answers a question of its own conversation, if it
        `is_new`: has arrived while the question was open."""
        entry = self._open.get(message.option_of)
        if entry is None and is_new and not message.option_of and not message.peer_id:
            entry = next((each for each in self._open.values() if each.conversation == conversation), None)
        if entry is None or entry.answer.done():
            return None
        entry.answer.set_result(message.text.strip())
        return entry.conversation

    async def _present(self, question: UserQuestion, key: str) -> str:
        """Show a question and return its id, also while the server is away. Raises ToolError."""
        path, body = self._request(question)
        back_off = BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness)
        while True:
            try:
                response = await self._requester.call("POST", path, body=body, headers=idempotency_headers(key))
                return expect_member(response, "activity_id", str)
            except ToolError as error:
                if not error.is_transient:
                    raise
            await sleep(self._clock, back_off.next_delay())

    def _request(self, question: UserQuestion) -> tuple[str, dict[str, object]]:
        labels = list(dict.fromkeys(sanitize_line(each.label, _MAX_LABEL) for each in question.options))[:_MAX_OPTIONS]
        lines = [
            question.question,
            *(f"- {each.label}: {each.description}" for each in question.options if each.description),
        ]
        text = "\n".join(lines)
        if labels:
            return f"/workspaces/{self._workspace_id}/options", {
                "question": text,
                "options": labels,
                "progress": True,
            }
        return f"/workspaces/{self._workspace_id}/notify", {"message": text, "progress": True}
