"""A session of the editor: the prompts that run, what the agent does meanwhile, and answers that come later.

One task reads what is new and sends it, so that updates are in order. The live channel only wakes it, apart from live
text, which is stored nowhere.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from molecule_core.agent.async_utils import sleep
from molecule_core.agent.backoff import BackOff
from molecule_core.agent.editor.account import PersonAccount
from molecule_core.agent.editor.approval_questions import ApprovalQuestions
from molecule_core.agent.editor.connection import AUTHENTICATION_REQUIRED, EditorConnection, EditorError
from molecule_core.agent.editor.delegation_view import DelegationView
from molecule_core.agent.editor.message_sender import MessageSender
from molecule_core.agent.editor.org_feed import OrgFeed
from molecule_core.agent.editor.prompt_content import PromptContent
from molecule_core.agent.editor.prompt_turn import CANCELLED, END_TURN, PromptTurn, TurnEnding, TurnTimes
from molecule_core.agent.editor.session_chat import SessionChat, ShownMessage
from molecule_core.agent.editor.session_files import StoredSession
from molecule_core.agent.editor.updates import call_content, file_chunk, text_chunk, tool_call, tool_call_update
from molecule_core.common.clock import Clock
from molecule_core.common.text import single_line

_log = logging.getLogger("molecule.agent")
Members = dict[str, Any]
_CHAT_EVENTS = {
    *("USER_MESSAGE", "AGENT_MESSAGE", "MESSAGE_TICK", "MESSAGE_OVERDUE", "MESSAGE_DRAFTED", "MESSAGE_DEAD"),
    *("MESSAGE_REQUEUED", "ACTIVITY_LOGGED"),
}
_THOUGHT = "agent_thought_chunk"
_TICK_SECONDS = 0.5
# 5 s: the live channel opens in milliseconds, and without it a prompt still gets its answer.
_CHANNEL_SECONDS = 5.0
_MAX_LIVE_EVENTS = 2000
_MAX_TITLE = 200
_POLL_SECONDS = 10.0


class EditorParts(Struct, frozen=True):
    """What all sessions of an editor share."""

    account: PersonAccount
    connection: EditorConnection
    feed: OrgFeed
    clock: Clock
    times: TurnTimes
    new_id: Callable[[], str]
    new_back_off: Callable[[], BackOff]


class EditorSession:
    """An open session. A listener of the live channel until it is closed."""

    def __init__(self, parts: EditorParts, stored: StoredSession, prefix: str) -> None:
        self.stored = stored
        self._parts = parts
        self._prefix = prefix
        self._chat = SessionChat(parts.account, stored.workspace_id, prefix, stored.after)
        self._turns: list[PromptTurn] = []
        self._approvals = ApprovalQuestions(parts.account, parts.connection, stored.id)
        self._delegations = DelegationView(parts.account.path_of)
        self._live: deque[Members] = deque(maxlen=_MAX_LIVE_EVENTS)
        self._updates: deque[Members] = deque()
        self._wake = asyncio.Event()
        self._chat_changed = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._questions: dict[str, asyncio.Task[None]] = {}
        self._choices: set[str] = set()
        """Ids of own messages that choose an option."""
        self._pump = asyncio.create_task(self._run_pump())
        parts.feed.add(self)

    @property
    def name(self) -> str:
        """Return the name of the workspace."""
        row = self._parts.account.workspaces.get(self.stored.workspace_id)
        return str(row["name"]) if row else "The workspace"

    @property
    def is_busy(self) -> bool:
        """Return whether a prompt runs."""
        return bool(self._turns)

    async def close(self) -> None:
        """End the session and its prompts. What was sent stays sent."""
        self._parts.feed.remove(self)
        for turn in self._turns:
            self._end_turn(turn, TurnEnding(CANCELLED))
        tasks = [self._pump, *self._tasks, *self._questions.values()]
        for task in tasks:
            task.cancel()
        await self._approvals.end()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- the live channel ----------------------------------------------------------------------------------------------

    def handle_event(self, name: str, workspace_id: str, payload: Members) -> None:
        """Handle an event of the organisation."""
        if name.startswith("APPROVAL_") and "approval_id" in payload:
            self._note_sign()
            self._approvals.handle_item(payload)
            return
        if workspace_id != self.stored.workspace_id:
            return
        if name == "LIVE_TURN" and self._turns:
            self._live.append(payload)
        elif name in _CHAT_EVENTS:
            self._chat_changed = True
        elif self._turns and (updates := self._delegations.handle_event(name, payload)):
            self._note_sign()
            self._updates.extend(updates)
        else:
            return
        self._wake.set()

    def handle_connected(self) -> None:
        """Read what happened while the channel was away."""
        self._chat_changed = True
        self._wake.set()
        if self._turns:
            self._spawn(self._start_approvals())

    def _note_sign(self) -> None:
        for turn in self._turns:
            turn.note_sign(self._parts.clock.monotonic())

    # -- requests of the editor ----------------------------------------------------------------------------------------

    async def prompt(self, content: PromptContent) -> str:
        """Send a prompt, and return the reason for which its turn ends. Raises EditorError."""
        clock = self._parts.clock
        await clock.wait(self._parts.feed.connected.wait(), _CHANNEL_SECONDS)
        turn = PromptTurn(self._new_client_id(), self.name, self._parts.times, clock.monotonic())
        self._chat.expect(turn.client_id)
        self._turns.append(turn)
        sending = asyncio.create_task(self._sender(turn).send(self.stored.workspace_id, turn.client_id, content))
        try:
            self._spawn(self._start_approvals())
            ending = await self._watch(turn, sending)
        finally:
            if turn in self._turns:
                self._turns.remove(turn)
            await _cancel(sending)
            if not self._turns:
                await self._approvals.end()
                for task in tuple(self._questions.values()):
                    task.cancel()
        self._spawn(self._mark_read())
        return ending.stop_reason

    async def cancel(self) -> None:
        """Cancel the prompts that run: stop the agent's turn, if it works on one of them."""
        await asyncio.gather(*(self._cancel_turn(turn) for turn in list(self._turns)))

    async def replay(self) -> None:
        """Send the messages of the session so far. Raises EditorError."""
        for row in await self._chat.replay():
            kind = "user_message_chunk" if row["role"] == "user" else "agent_message_chunk"
            await self._send_row(row, str(row["content"]), kind)

    async def find_end(self) -> None:
        """Begin the session at the end of the chat. Raises EditorError."""
        self.stored.after = await self._chat.find_end()
        self._chat = SessionChat(self._parts.account, self.stored.workspace_id, self._prefix, self.stored.after)

    def _new_client_id(self) -> str:
        return f"{self._prefix or 'acp.'}{self._parts.new_id()}"

    def _sender(self, turn: PromptTurn) -> MessageSender:
        async def note_outage() -> None:
            text = "The server does not respond. The message is sent again until it does.\n"
            await self._send_text(turn.note_once("outage", text), _THOUGHT)

        return MessageSender(self._parts.account, self._parts.clock, self._parts.new_back_off(), note_outage)

    async def _cancel_turn(self, turn: PromptTurn) -> None:
        turn.cancel(self._parts.clock.monotonic())
        path = f"/workspaces/{self.stored.workspace_id}/live/stop"
        try:
            if not turn.activity_id:
                raise EditorError(0, "the message is not sent yet")
            await self._parts.account.request("POST", path, body={"activity_id": turn.activity_id})
        except EditorError as error:
            _log.info("no turn is stopped: %s", error)
            if turn.activity_id and turn.waits_for_pick_up:
                await self._send_text(
                    f"The message stays in the inbox of {self.name}: it cannot be withdrawn.\n", _THOUGHT
                )
            self._end_turn(turn, TurnEnding(CANCELLED))

    async def _start_approvals(self) -> None:
        try:
            await self._parts.account.load_workspaces()
            await self._approvals.start(self.stored.workspace_id)
        except EditorError as error:
            _log.warning("approvals cannot be read: %s", error)

    async def _mark_read(self) -> None:
        """Mark the chat as read, for the page."""
        path = f"/workspaces/{self.stored.workspace_id}/chat/read"
        try:
            await self._parts.account.request("POST", path, body={"seq": self._chat.newest_seq})
        except EditorError as error:
            _log.info("the chat is not marked as read: %s", error)

    # -- the end of a turn ---------------------------------------------------------------------------------------------

    async def _watch(self, turn: PromptTurn, sending: asyncio.Task[None]) -> TurnEnding:
        """Wait for the end of a turn; end it when it has waited long enough."""
        clock, polled_at = self._parts.clock, self._parts.clock.monotonic()
        while not await clock.wait(asyncio.shield(turn.done), _TICK_SECONDS):
            now = clock.monotonic()
            if sending.done():
                try:
                    sending.result()
                except EditorError:
                    self._chat.close(turn.client_id)
                    raise
            if self._approvals.is_open or self._questions:
                turn.note_sign(now)
            if now - polled_at >= _POLL_SECONDS and not self._parts.feed.connected.is_set():
                polled_at, self._chat_changed = now, True
                self._wake.set()
            if turn.needs_status(now):
                await self._check_agent(turn)
            await self._send_text(turn.busy_notice(now), _THOUGHT)
            if (ending := turn.next_ending(clock.monotonic())) is not None:
                await self._finish(turn, ending)
        return turn.done.result()

    async def _check_agent(self, turn: PromptTurn) -> None:
        try:
            rows = await self._parts.account.load_workspaces()
        except EditorError:
            return
        if (row := rows.get(self.stored.workspace_id)) is not None:
            await self._send_text(turn.view.separate(turn.handle_status(row, self._parts.clock.monotonic())))

    async def _finish(self, turn: PromptTurn, ending: TurnEnding) -> None:
        """Send the end of a turn, and end it."""
        if turn.is_ending:
            return
        turn.is_ending = True
        for update in turn.view.end_calls():
            await self._send(update)
        await self._send_text(turn.view.separate(ending.text))
        if ending.is_closed:
            self._chat.close(turn.client_id)
        self._end_turn(turn, ending)

    def _end_turn(self, turn: PromptTurn, ending: TurnEnding) -> None:
        if not turn.done.done():
            turn.done.set_result(ending)

    def _fail_turns(self, error: EditorError) -> None:
        for turn in self._turns:
            if not turn.done.done():
                turn.done.set_exception(error)

    # -- the pump ------------------------------------------------------------------------------------------------------

    async def _run_pump(self) -> None:
        back_off = self._parts.new_back_off()
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._send_news()
                back_off.reset()
            except EditorError as error:
                _log.warning("the chat cannot be read: %s", error)
                if error.code == AUTHENTICATION_REQUIRED:
                    self._fail_turns(error)
                self._chat_changed = True
                self._wake.set()
                await sleep(self._parts.clock, back_off.next_delay())
            except Exception:
                _log.exception("an update of the session failed")

    async def _send_news(self) -> None:
        if self._chat_changed and any(not turn.activity_id for turn in self._turns):
            await self._read_chat()
        await self._send_live()
        while self._updates:
            await self._send(self._updates.popleft())
        if self._chat_changed:
            await self._read_chat()

    async def _send_live(self) -> None:
        """Send live text and tool calls. What is about a message whose id is not known yet waits for it."""
        waiting: list[Members] = []
        while self._live:
            payload = self._live.popleft()
            turn = next((each for each in self._turns if each.activity_id == payload.get("activity_id")), None)
            if turn is None:
                if any(not each.activity_id for each in self._turns):
                    waiting.append(payload)
                continue
            turn.note_sign(self._parts.clock.monotonic())
            for update in turn.view.handle_turn(payload):
                await self._send(update)
            if (ending := turn.handle_live_end(self._parts.clock.monotonic())) is not None:
                await self._finish(turn, ending)
        self._live.extend(waiting)

    async def _read_chat(self) -> None:
        self._chat_changed = False
        try:
            news = await self._chat.read()
        except EditorError:
            self._chat_changed = True
            raise
        for question_id, task in tuple(self._questions.items()):
            if news.chosen.get(question_id, "") not in ("", *self._choices):
                task.cancel()
        for message in news.messages:
            await self._show(message)
        for turn in tuple(self._turns):
            row = news.own.get(turn.client_id)
            if row is not None and not turn.done.done():
                await self._handle_row(turn, row, news.messages)

    async def _show(self, message: ShownMessage) -> None:
        turn = next((each for each in self._turns if each.client_id == message.answers), None)
        text = str(message.row["content"])
        if message.row.get("options"):
            text += "\n\n" + "\n".join(f"{at}. {words}" for at, words in enumerate(message.row["options"], 1))
        if turn is not None:
            text = turn.view.rest_of_answer(text)
        elif self._turns:
            text = self._turns[-1].view.separate(text)
            self._note_sign()
            if message.row.get("options"):
                self._questions[message.row["id"]] = asyncio.create_task(self._ask_aside(self._turns[-1], message.row))
        elif message.answers:
            self._chat.close(message.answers)
        await self._send_row(message.row, text, "agent_message_chunk")

    async def _handle_row(self, turn: PromptTurn, row: Members, messages: list[ShownMessage]) -> None:
        ending = turn.handle_row(row, self._parts.clock.monotonic())
        if ending is None:
            return
        question = next((m.row for m in messages if m.answers == turn.client_id and m.row.get("options")), None)
        if question is None or turn.is_cancelled:
            await self._finish(turn, ending)
        elif question["id"] not in self._questions:
            self._chat.close(turn.client_id)
            task = asyncio.create_task(self._ask_option(turn, question))
            self._questions[question["id"]] = task

    async def _ask_option(self, turn: PromptTurn, question: Members) -> None:
        """Ask the person which option to choose, and continue the turn with the choice."""
        try:
            chosen = await self._ask_choice(question)
            if chosen is None or turn.done.done():
                await self._finish(turn, TurnEnding(END_TURN))
                return
            turn.continue_with(self._new_client_id(), self._parts.clock.monotonic())
            self._chat.expect(turn.client_id)
            self._choices.add(turn.client_id)
            words = str(question["options"][chosen])
            sender = self._sender(turn)
            await sender.choose(self.stored.workspace_id, turn.client_id, words, question["id"], chosen)
        except EditorError as error:
            await self._finish(turn, TurnEnding(END_TURN, str(error), True))
        except asyncio.CancelledError:
            self._end_turn(turn, TurnEnding(CANCELLED if turn.is_cancelled else END_TURN))
            raise
        finally:
            self._questions.pop(question["id"], None)

    async def _ask_aside(self, turn: PromptTurn, question: Members) -> None:
        """Ask the person what the agent asks while it works on the prompt, and send the choice."""
        try:
            chosen = await self._ask_choice(question)
            if chosen is not None:
                client_id = self._new_client_id()
                self._choices.add(client_id)
                words = str(question["options"][chosen])
                sender = self._sender(turn)
                await sender.choose(self.stored.workspace_id, client_id, words, question["id"], chosen)
        except EditorError as error:
            await self._send_text(f"{error}\n", _THOUGHT)
        finally:
            self._questions.pop(question["id"], None)

    async def _ask_choice(self, question: Members) -> int | None:
        call_id, title = f"question-{question['id']}", single_line(str(question["content"]), _MAX_TITLE)
        text = str(question["content"])
        await self._send(tool_call(call_id, title, status="pending", text=text))
        call = {
            **{"toolCallId": call_id, "title": title, "kind": "other", "status": "pending"},
            "content": call_content(text),
        }
        options = [
            {"optionId": f"option-{at}", "name": single_line(str(words), _MAX_TITLE), "kind": "allow_once"}
            for at, words in enumerate(question["options"])
        ]
        try:
            chosen = await self._parts.connection.ask_permission(self.stored.id, call, options)
        except asyncio.CancelledError:
            await self._send(tool_call_update(call_id, status="failed", text="Answered elsewhere."))
            raise
        if chosen is None:
            await self._send(tool_call_update(call_id, status="failed", text="Not answered. Answer it by a message."))
            return None
        at = [each["optionId"] for each in options].index(chosen)
        await self._send(tool_call_update(call_id, status="completed", text=options[at]["name"]))
        return at

    # -- output --------------------------------------------------------------------------------------------------------

    async def _send_row(self, row: Members, text: str, kind: str) -> None:
        if text.strip():
            await self._send(text_chunk(text, message_id=str(row["id"]), kind=kind))
        for file in row.get("attachments") or ():
            file_id = str(file.get("uri") or "").rpartition("/")[2].rpartition(":")[2]
            url = f"{self._parts.account.url}/workspaces/{self.stored.workspace_id}/files/{file_id}"
            await self._send(file_chunk(file, url, message_id=str(row["id"]), kind=kind))

    async def _send_text(self, text: str, kind: str = "agent_message_chunk") -> None:
        if text:
            await self._send(text_chunk(text, kind=kind))

    async def _send(self, update: Members) -> None:
        await self._parts.connection.update(self.stored.id, update)

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
