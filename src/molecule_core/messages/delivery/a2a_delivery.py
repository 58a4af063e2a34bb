"""Delivers pushed messages to A2A agents of others: sends them, continues their tasks, cancels tasks.

Called by the dispatcher in place of a plain POST; claims, retries, results and the circuit are those of every push. A
task that is not finished is followed by a2a_follower. See docs/explanation/delivery.md."""

import base64
from typing import Any

import msgspec
from msgspec.structs import replace

from molecule_core.a2a_agents.client import A2AClient
from molecule_core.a2a_agents.model import A2AAgent, RemoteTask
from molecule_core.a2a_agents.reader import A2AAgentReader
from molecule_core.a2a_agents.writer import TaskNotifications, save_task
from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import FetchFailed, FilesUnavailable, NotFound, UnsafeUrl
from molecule_core.common.limits import Limits
from molecule_core.messages.delivery import a2a_answers, push_policy
from molecule_core.messages.delivery.a2a_events import A2AEvents
from molecule_core.messages.delivery.a2a_follower import A2ATaskFollower
from molecule_core.messages.delivery_state import DeliveryFailure, PushAttempt, PushResult
from molecule_core.messages.files import attachments
from molecule_core.messages.files.uploads import FileWriter
from molecule_core.org.model import Workspace
from molecule_core.wire.protocols.a2a_call import (
    FINAL_STATES,
    INTERRUPTED_STATES,
    TASK_NOT_CANCELABLE,
    TASK_NOT_FOUND,
    UNSUPPORTED,
    A2AAnswer,
    A2AOperation,
    AgentCall,
    find_sent,
    list_call,
    parse_answer,
    send_call,
    task_call,
)
from molecule_core.wire.protocols.a2a_response import get_member, part_as_text
from molecule_core.wire.schemas.activity import MessageKind

_READ_BYTES = 256 << 10
# The answer to a push that needs none: the message has been handled.
_HANDLED = "{}"
_ENDED_ERRORS = (TASK_NOT_CANCELABLE, TASK_NOT_FOUND, UNSUPPORTED)


class A2ADelivery:
    """Delivers messages to A2A agents."""

    def __init__(
        self,
        client: A2AClient,
        agents: A2AAgentReader,
        follower: A2ATaskFollower,
        notifications: TaskNotifications,
        files: FileWriter,
        *,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._client = client
        self._agents = agents
        self._follower = follower
        self._notifications = notifications
        # Agents that refused a message with the address for notifications and accepted it without.
        self._without_push: set[str] = set()
        self._files = files
        self._clock = clock
        self._limits = limits

    async def deliver(self, workspace: Workspace, push: PushAttempt) -> PushResult:
        """Deliver a message; returns its result as that of any push."""
        agent = await self._agents.agent(workspace.id)
        if agent is None:
            reason = "this workspace has no A2A agent. Set the url of its card again."
            return PushResult(error=reason, refused=True, code=DeliveryFailure.REFUSED, sent=False)
        try:
            return await self._deliver(agent, push)
        except UnsafeUrl as error:
            reason = str(error.details["reason"])
            return PushResult(error=reason, refused=True, code=DeliveryFailure.UNSAFE_URL, sent=False)
        except FetchFailed as error:
            return push_policy.classify_failure(**error.details)

    async def _deliver(self, agent: A2AAgent, push: PushAttempt) -> PushResult:
        message = msgspec.json.decode(push.body)["params"]["message"]
        if push.kind == MessageKind.SYSTEM:
            return await self._end_task(agent, get_member(message.get("metadata"), "delegation_id"))
        known = await self._agents.task(agent.workspace_id, push.activity_id)
        if known is not None and known.task_id:
            # A reminder, or a push whose result was lost: the agent has the message already.
            answer = await self._call(agent, self._task_call(agent, A2AOperation.GET, known))
            return self._to_result(answer, known)
        about = await self._agents.task(agent.workspace_id, push.context_id or "")
        conversation = about.activity_id if about is not None else str(message["contextId"])
        continued, context_id = await self._find_continued(agent, push, conversation, about)
        outgoing = {
            "kind": "message",
            "role": "user",
            "messageId": push.activity_id,
            "contextId": context_id,
            **({} if continued is None else {"taskId": continued.task_id}),
            "parts": await self._outgoing_parts(agent.workspace_id, message["parts"]),
            "metadata": {name: value for name, value in message["metadata"].items() if name != "instructions"},
        }
        now = self._clock.now()
        task = RemoteTask(
            workspace_id=agent.workspace_id,
            activity_id=push.activity_id,
            org_id=agent.org_id,
            seq=push.seq,
            source_id=push.source_id,
            kind=push.kind,
            conversation=conversation,
            task_id="",
            context_id=context_id,
            state="",
            claim=0,
            polls=0,
            failures=0,
            asked=None,
            due=0,
            created_at=now,
            updated_at=now,
        )
        result = await self._send(agent, push, outgoing, task)
        if continued is None or result.answer is None:
            return result
        closed = save_task(replace(continued, state=a2a_answers.CONTINUED, due=0, updated_at=now))
        return replace(result, more_writes=(*closed, *result.more_writes))

    async def _find_continued(
        self, agent: A2AAgent, push: PushAttempt, conversation: str, about: RemoteTask | None
    ) -> tuple[RemoteTask | None, str]:
        """Return the task that a message continues, because it waits for an answer, and the context of the message.

        The context of the answer to a question about a delegation is that delegation."""
        found = await self._agents.tasks_of_conversation(agent.workspace_id, conversation)
        candidates = [each for each in found if each.kind != MessageKind.DELEGATION]
        if about is not None:
            candidates.append(about)
            found = [*found, about]
        waiting = None
        if push.kind != MessageKind.DELEGATION:
            waiting = next((each for each in candidates if each.state in INTERRUPTED_STATES), None)
        known = waiting or next((each for each in found if each.context_id), None)
        return waiting, conversation if known is None or known.context_id is None else known.context_id

    # -- sending -------------------------------------------------------------------------------------------------------

    async def _send(self, agent: A2AAgent, push: PushAttempt, message: dict[str, Any], task: RemoteTask) -> PushResult:
        """Send a message. One that may have been sent before is looked for at the agent first."""
        if push.attempt > 1 and (found := await self._find_sent(agent, message)) is not None:
            return self._to_result(found, task)
        card = agent.parsed_card()
        try:
            if card.streaming:
                call = send_call(card.interface, message, push.activity_id, stream=True, extensions=card.extensions)
                result = await self._stream(agent, call, task)
                if result is not None:
                    return result
            return await self._send_without_stream(agent, push, message, task)
        except FetchFailed as error:
            is_uncertain = error.details["sent"] and error.details["status"] is None
            found = await self._find_sent(agent, message) if is_uncertain else None
            if found is None:
                raise
            return self._to_result(found, task)

    async def _send_without_stream(
        self, agent: A2AAgent, push: PushAttempt, message: dict[str, Any], task: RemoteTask
    ) -> PushResult:
        """Send a message with the address for notifications. An agent that refuses this is sent it without."""
        card, target = agent.parsed_card(), None
        if agent.workspace_id not in self._without_push:
            target = self._notifications.target_for(agent, push.activity_id)
        call = send_call(
            card.interface, message, push.activity_id, stream=False, extensions=card.extensions, push=target
        )
        result = self._to_result(await self._call(agent, call), task)
        if target is None or result.code != DeliveryFailure.REFUSED:
            return result
        call = send_call(card.interface, message, push.activity_id, stream=False, extensions=card.extensions)
        result = self._to_result(await self._call(agent, call), task)
        if result.answer is not None:
            self._without_push.add(agent.workspace_id)
        return result

    async def _find_sent(self, agent: A2AAgent, message: dict[str, Any]) -> A2AAnswer | PushResult | None:
        """Return the task of a message at its agent; None if there is none, or if the agent cannot list tasks.

        A list has no artifacts, so that the task is read once it is found."""
        call = list_call(agent.parsed_card().interface, message["contextId"], message["messageId"])
        if call is None:
            return None
        try:
            result = await self._client.call(agent, call)
            found = find_sent(msgspec.json.decode(result.body), message["messageId"])
        except (FetchFailed, msgspec.DecodeError):
            return None
        if found is None:
            return None
        read = task_call(agent.parsed_card().interface, A2AOperation.GET, str(found["id"]), message["messageId"])
        try:
            return await self._call(agent, read)
        except FetchFailed as error:  # nothing was sent by this read, so it is tried again
            raise FetchFailed(reason=error.details["reason"], sent=False, status=None) from None

    async def _call(self, agent: A2AAgent, call: AgentCall) -> A2AAnswer | PushResult:
        """Call an operation; returns its answer, or the failure of a response that is none."""
        response = await self._client.call(agent, call)
        return self._classify(response.status, response.headers, response.body)

    def _classify(self, status: int, headers: dict[str, str], body: bytes) -> A2AAnswer | PushResult:
        result = push_policy.classify_response(status, headers, body, max_depth=self._limits.json_depth)
        return result if result.answer is None else parse_answer(msgspec.json.decode(result.answer))

    async def _stream(self, agent: A2AAgent, call: AgentCall, task: RemoteTask) -> PushResult | None:
        """Send a message and read its stream up to the first task or message; None if the agent does not stream.

        The rest of the stream is read by the follower."""
        events = A2AEvents(await self._client.open_stream(agent, call), max_depth=self._limits.json_depth)
        is_kept = False
        try:
            if not events.is_stream:
                answer = self._classify(events.status, events.headers, await events.read_body())
                is_unsupported = isinstance(answer, A2AAnswer) and answer.code == UNSUPPORTED
                return None if is_unsupported else self._to_result(answer, task)
            first = await events.next_answer()
            if first is None:
                raise FetchFailed(reason="its stream ended without an event", sent=True, status=None)
            result = self._to_result(first, task)
            if result.is_followed:
                self._follower.adopt_stream(task.key, events)
                is_kept = True
            return result
        finally:
            if not is_kept:
                events.close()

    def _to_result(self, answer: A2AAnswer | PushResult, task: RemoteTask) -> PushResult:
        """Return the result of a push whose agent gave this answer."""
        if isinstance(answer, PushResult):
            return answer
        if answer.result is None:
            return a2a_answers.error_result(answer)
        now = self._clock.now()
        if answer.is_unfinished:
            shown = a2a_answers.with_answer(task, answer, now, now)
            return PushResult(answer=_HANDLED, is_followed=True, more_writes=tuple(save_task(shown)))
        # An interrupted task may go on by itself: it may be authorized or cancelled elsewhere.
        due = now + self._limits.a2a_poll_seconds * SECOND if answer.is_interrupted else 0
        shown = a2a_answers.with_answer(task, answer, now, due)
        is_worth_keeping = shown.task_id or shown.context_id != task.conversation
        return PushResult(answer=answer.as_response(), more_writes=tuple(save_task(shown)) if is_worth_keeping else ())

    # -- ends ----------------------------------------------------------------------------------------------------------

    async def _end_task(self, agent: A2AAgent, delegation_id: Any) -> PushResult:
        """Cancel the task of a delegation that has ended here. Other notices of the server are not for such agents."""
        handled = PushResult(answer=_HANDLED)
        if not isinstance(delegation_id, str):
            return handled
        found = await self._agents.tasks_of_conversation(agent.workspace_id, delegation_id)
        about = await self._agents.task(agent.workspace_id, delegation_id)
        open_states = (*FINAL_STATES, a2a_answers.CONTINUED, "message")
        task = next((each for each in [*found, about] if each and each.state not in open_states), None)
        if task is None or not task.task_id:
            return handled
        answer = await self._call(agent, self._task_call(agent, A2AOperation.CANCEL, task))
        if isinstance(answer, PushResult):
            return answer
        if answer.error is not None and answer.code not in _ENDED_ERRORS:
            return a2a_answers.error_result(answer)
        ended = replace(task, state="canceled", due=0, updated_at=self._clock.now(), claim=task.claim + 1)
        return replace(handled, more_writes=tuple(save_task(ended)))

    @staticmethod
    def _task_call(agent: A2AAgent, operation: A2AOperation, task: RemoteTask) -> AgentCall:
        return task_call(agent.parsed_card().interface, operation, task.task_id, task.activity_id)

    # -- files ---------------------------------------------------------------------------------------------------------

    async def _outgoing_parts(self, workspace_id: str, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the parts of a message with the bytes of our files, which the agent cannot fetch."""
        outgoing, bytes_left = list[dict[str, Any]](), self._limits.a2a_file_bytes
        for part in parts:
            reference = attachments.parse_file_uri(part["file"].get("uri")) if part["kind"] == "file" else None
            if reference is None:
                outgoing.append(part)
                continue
            try:
                data = await self._read_file(reference.workspace_id, reference.id, workspace_id, bytes_left)
            except (NotFound, FilesUnavailable) as error:
                outgoing.append({"kind": "text", "text": f"{part_as_text(part)}: {error.text}"})
                continue
            if data is None:
                text = f"{part_as_text(part)}: the files of a message to this agent have at most "
                outgoing.append({"kind": "text", "text": f"{text}{self._limits.a2a_file_bytes} bytes"})
                continue
            bytes_left -= len(data)
            names = {name: part["file"][name] for name in ("name", "mimeType") if part["file"].get(name)}
            outgoing.append({"kind": "file", "file": {**names, "bytes": base64.b64encode(data).decode()}})
        return outgoing

    async def _read_file(self, owner_id: str, file_id: str, reader_id: str, limit: int) -> bytes | None:
        """Return the bytes of a file, or None if there are more than `limit`. Raises NotFound, FilesUnavailable."""
        file, reader = await self._files.read_file(owner_id, file_id, reader_id)
        try:
            if file.size > limit:
                return None
            pieces = []
            while piece := await reader.read(_READ_BYTES):
                pieces.append(piece)
            return b"".join(pieces)
        finally:
            reader.close()
