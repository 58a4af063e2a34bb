"""Builds requests to A2A agents and reads their answers and events, for both lines of the protocol.

The server's own messages have the shapes of A2A 0.3; here they become those of the agent's line. Answers are read in
the shapes of either line. Called by `messages/delivery`; uses no network.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import Struct

from molecule_core.wire.protocols.a2a_card import A2ABinding, AgentInterface
from molecule_core.wire.protocols.a2a_response import get_member, task_state_of, unwrap_result
from molecule_core.wire.protocols.a2a_shapes import A2ALine, render_part

VERSION_HEADER = "A2A-Version"
EXTENSION_HEADERS = {A2ALine.V1: "A2A-Extensions", A2ALine.V0_3: "X-A2A-Extensions"}
FINAL_STATES = ("completed", "failed", "canceled", "rejected")
INTERRUPTED_STATES = ("input-required", "auth-required")
TASK_NOT_FOUND, TASK_NOT_CANCELABLE, UNSUPPORTED = -32001, -32002, -32004
# A page of tasks is enough to find the one of a message that was sent a moment ago.
_LISTED_TASKS = 50
# One configuration for each task: a message that continues it replaces the one before.
_PUSH_CONFIG_ID = "molecule"


class A2AOperation(StrEnum):
    """An operation of A2A, by its name in 1.0."""

    SEND = "SendMessage"
    STREAM = "SendStreamingMessage"
    GET = "GetTask"
    LIST = "ListTasks"
    CANCEL = "CancelTask"
    SUBSCRIBE = "SubscribeToTask"


_OLD_METHODS = {
    A2AOperation.SEND: "message/send",
    A2AOperation.STREAM: "message/stream",
    A2AOperation.GET: "tasks/get",
    A2AOperation.CANCEL: "tasks/cancel",
    A2AOperation.SUBSCRIBE: "tasks/resubscribe",
}
STREAMS = (A2AOperation.STREAM, A2AOperation.SUBSCRIBE)


class AgentCall(Struct, frozen=True):
    """A request to an A2A agent. A body is posted; without one, the url is requested."""

    operation: A2AOperation
    url: str
    headers: dict[str, str]
    body: bytes | None


class PushTarget(NamedTuple):
    """Where an agent sends push notifications of a task, and the token that it sends with them."""

    url: str
    token: str

    def __repr__(self) -> str:
        return f"PushTarget({self.url})"


def send_call(
    interface: AgentInterface,
    message: dict[str, Any],
    call_id: str,
    *,
    stream: bool,
    extensions: Iterable[str] = (),
    push: PushTarget | None = None,
) -> AgentCall:
    """Return the request that sends a message (in the shape of 0.3). It does not wait for the end of the task.

    `push`: where the agent notifies of changes of the task."""
    is_new = interface.line is A2ALine.V1
    configuration: dict[str, Any] = {"returnImmediately": True} if is_new else {"blocking": False}
    if push is not None:
        scheme = {"scheme": "Bearer"} if is_new else {"schemes": ["Bearer"]}
        member = "taskPushNotificationConfig" if is_new else "pushNotificationConfig"
        authentication = {**scheme, "credentials": push.token}
        configuration[member] = {
            "id": _PUSH_CONFIG_ID,
            "url": push.url,
            "token": push.token,
            "authentication": authentication,
        }
    params = {"message": _to_v1_message(message) if is_new else message, "configuration": configuration}
    operation = A2AOperation.STREAM if stream else A2AOperation.SEND
    return _call(interface, operation, params, call_id, extensions)


def task_call(interface: AgentInterface, operation: A2AOperation, task_id: str, call_id: str) -> AgentCall:
    """Return a request about one task."""
    return _call(interface, operation, {"id": task_id}, call_id)


def list_call(interface: AgentInterface, context_id: str, call_id: str) -> AgentCall | None:
    """Return the request for the tasks of a context with their history; None if the line has none."""
    if interface.line is not A2ALine.V1:
        return None
    params = {"contextId": context_id, "pageSize": _LISTED_TASKS, "historyLength": _LISTED_TASKS}
    return _call(interface, A2AOperation.LIST, params, call_id)


def _call(
    interface: AgentInterface,
    operation: A2AOperation,
    params: dict[str, Any],
    call_id: str,
    extensions: Iterable[str] = (),
) -> AgentCall:
    headers = {
        "Content-Type": "application/json",
        "Accept": "text/event-stream" if operation in STREAMS else "application/json",
        VERSION_HEADER: interface.line.value,
    }
    if named := ",".join(extensions):
        headers[EXTENSION_HEADERS[interface.line]] = named
    if interface.binding is A2ABinding.HTTP_JSON:
        return _rest_call(interface, operation, params, headers)
    if interface.tenant is not None:
        params = {"tenant": interface.tenant, **params}
    method = operation.value if interface.line is A2ALine.V1 else _OLD_METHODS[operation]
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params})
    return AgentCall(operation, interface.url, headers, body)


def _rest_call(
    interface: AgentInterface, operation: A2AOperation, params: dict[str, Any], headers: dict[str, str]
) -> AgentCall:
    base = interface.url.rstrip("/") + (f"/{quote(interface.tenant, safe='')}" if interface.tenant else "")
    task = f"{base}/tasks/{quote(str(params.get('id', '')), safe='')}"
    if operation in (A2AOperation.SEND, A2AOperation.STREAM):
        verb = "send" if operation is A2AOperation.SEND else "stream"
        return AgentCall(operation, f"{base}/message:{verb}", headers, msgspec.json.encode(params))
    if operation is A2AOperation.LIST:
        query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in params.items())
        return AgentCall(operation, f"{base}/tasks?{query}", headers, None)
    if operation is A2AOperation.CANCEL:
        return AgentCall(operation, f"{task}:cancel", headers, b"{}")
    return AgentCall(operation, f"{task}:subscribe" if operation is A2AOperation.SUBSCRIBE else task, headers, None)


def _to_v1_message(message: dict[str, Any]) -> dict[str, Any]:
    kept = ("messageId", "contextId", "taskId", "metadata", "extensions", "referenceTaskIds")
    role = "ROLE_AGENT" if message.get("role") == "agent" else "ROLE_USER"
    return {
        **{name: message[name] for name in kept if message.get(name) is not None},
        "role": role,
        "parts": [render_part(part, A2ALine.V1) for part in message["parts"]],
    }


# -- answers -----------------------------------------------------------------------------------------------------------


class A2AAnswer(NamedTuple):
    """An answer of an agent: its task or message, else its error, else neither (`result` and `error` are None)."""

    result: dict[str, Any] | None
    error: str | None = None
    code: int | None = None

    @property
    def state(self) -> str | None:
        """Return the state of the task, as A2A 0.3 spells it; None for a message."""
        return task_state_of(self.result)

    @property
    def is_unfinished(self) -> bool:
        """Return whether the answer is a task that the agent works on."""
        return self.state is not None and self.state not in (*FINAL_STATES, *INTERRUPTED_STATES)

    @property
    def is_interrupted(self) -> bool:
        """Return whether the answer is a task that waits for input or authorization."""
        return self.state in INTERRUPTED_STATES

    def as_response(self) -> str:
        """Return the result as the JSON-RPC response that the readers of answers expect."""
        return msgspec.json.encode({"jsonrpc": "2.0", "id": None, "result": self.result}).decode()


def parse_answer(value: Any) -> A2AAnswer:
    """Parse the decoded response to an operation, from JSON-RPC or HTTP+JSON."""
    error = get_member(value, "error")
    if error is not None:
        code, text = get_member(error, "code"), get_member(error, "message", error)
        is_code = isinstance(code, int) and not isinstance(code, bool)
        return A2AAnswer(None, text if isinstance(text, str) and text else "no message", code if is_code else None)
    result = unwrap_result(value)
    is_task = task_state_of(result) is not None and isinstance(get_member(result, "id"), str)
    is_message = isinstance(get_member(result, "parts"), list)
    return A2AAnswer(result if is_task or is_message else None)


def find_sent(value: Any, message_id: str) -> dict[str, Any] | None:
    """Return the task that has a message in its history, from the response to `ListTasks`."""
    tasks = get_member(get_member(value, "result", value), "tasks")
    for task in tasks if isinstance(tasks, list) else []:
        history = get_member(task, "history")
        for message in history if isinstance(history, list) else []:
            if get_member(message, "messageId") == message_id and task_state_of(task) is not None:
                return dict(task)
    return None


# -- streams -----------------------------------------------------------------------------------------------------------


class SseDecoder:
    """Splits a stream of server-sent events into the data of each event."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of the events that end in this chunk."""
        *lines, self._rest = (self._rest + chunk).replace(b"\r\n", b"\n").split(b"\n")
        found = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line.removeprefix(b"data:").removeprefix(b" "))
            elif not line and self._data:
                found.append(b"\n".join(self._data))
                self._data = []
        return found


class StreamedTask:
    """The task or message that the events of a stream describe. A repeated event changes nothing but its own part."""

    def __init__(self, task: dict[str, Any] | None = None) -> None:
        self._result = task

    @property
    def answer(self) -> A2AAnswer:
        """Return what the events so far describe."""
        return A2AAnswer(self._result)

    def apply(self, value: Any) -> A2AAnswer:
        """Apply the decoded data of an event; returns what it describes, or its error."""
        error = parse_answer(value)
        if error.error is not None:
            return error
        result = get_member(value, "result", value)
        status = _event_of(result, "statusUpdate", "status-update")
        artifact = _event_of(result, "artifactUpdate", "artifact-update")
        if status is not None and isinstance(status.get("status"), dict):
            self._base_of(status)["status"] = status["status"]
        elif artifact is not None and isinstance(artifact.get("artifact"), dict):
            self._add_artifact(
                self._base_of(artifact), artifact["artifact"], is_appended=artifact.get("append") is True
            )
        elif error.result is not None:
            self._result = dict(error.result)
        return self.answer

    def _base_of(self, event: dict[str, Any]) -> dict[str, Any]:
        """Return the task of an event; a stream that begins in the middle of a task has none yet."""
        if self._result is None:
            self._result = {
                "id": event.get("taskId"),
                "contextId": event.get("contextId"),
                "status": {"state": "working"},
            }
        return self._result

    @staticmethod
    def _add_artifact(task: dict[str, Any], artifact: dict[str, Any], *, is_appended: bool) -> None:
        artifacts = task["artifacts"] = [*(task.get("artifacts") or [])]
        for position, known in enumerate(artifacts):
            if get_member(known, "artifactId") == artifact.get("artifactId"):
                artifacts[position] = _joined(known, artifact) if is_appended else artifact
                return
        artifacts.append(artifact)


def _event_of(result: Any, member: str, kind: str) -> dict[str, Any] | None:
    """Return an event in the shape of either line."""
    event = get_member(result, member) or (result if get_member(result, "kind") == kind else None)
    return event if isinstance(event, dict) else None


def _joined(known: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return an artifact with appended parts. Texts are joined without a break, since they are pieces of one text."""
    parts = [*(known.get("parts") or [])]
    for part in more.get("parts") or []:
        last = parts[-1] if parts else None
        texts = get_member(last, "text"), get_member(part, "text")
        if isinstance(last, dict) and isinstance(texts[0], str) and isinstance(texts[1], str):
            parts[-1] = {**last, "text": texts[0] + texts[1]}
        else:
            parts.append(part)
    return {**known, "parts": parts}
