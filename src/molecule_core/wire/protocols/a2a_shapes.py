"""Tasks, messages and events of A2A, and how each line of the protocol writes them.

Parts have Molecule's form inside (`{"kind": "text", ...}`, that of A2A 0.3). Both the server and clients of A2A agents
use this module; it decides nothing.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct, structs

from molecule_core.common.clock import SECOND
from molecule_core.common.errors import InvalidMessage

_MILLISECOND = 1000
_V1_STATE_PREFIX = "TASK_STATE_"
_V1_ROLES = {"user": "ROLE_USER", "agent": "ROLE_AGENT"}
_PLAIN_ROLES = {name: role for role, name in _V1_ROLES.items()}
_V1_CONTENTS = ("text", "raw", "url", "data")
_FILE_MEMBERS = {"bytes": "raw", "uri": "url", "name": "filename", "mimeType": "mediaType"}
# What the server adds to a file, which A2A does not name.
_PUBLIC_FILE_MEMBERS = ("bytes", "uri", "name", "mimeType")


class A2ALine(StrEnum):
    """Line of the protocol: its major and minor version."""

    V1 = "1.0"
    V0_3 = "0.3"


class A2AState(StrEnum):
    """State of a task, as A2A 0.3 spells it."""

    SUBMITTED = "submitted"
    WORKING = "working"
    INPUT_REQUIRED = "input-required"
    AUTH_REQUIRED = "auth-required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    REJECTED = "rejected"

    @property
    def is_terminal(self) -> bool:
        """Return whether a task in this state never changes again."""
        return self in _TERMINAL_STATES

    @property
    def is_interrupted(self) -> bool:
        """Return whether the task waits for its client."""
        return self in (A2AState.INPUT_REQUIRED, A2AState.AUTH_REQUIRED)

    @property
    def ends_turn(self) -> bool:
        """Return whether a blocking request returns and a message stream ends in this state."""
        return self.is_terminal or self.is_interrupted

    def spelled(self, line: A2ALine) -> str:
        """Return the state as a line of the protocol spells it."""
        return self.value if line is A2ALine.V0_3 else _V1_STATE_PREFIX + self.name


_TERMINAL_STATES = (A2AState.COMPLETED, A2AState.FAILED, A2AState.CANCELED, A2AState.REJECTED)


class TaskMessage(Struct, frozen=True, kw_only=True):
    """A message of a task. `role`: user or agent."""

    id: str
    role: str
    parts: tuple[dict[str, Any], ...]
    task_id: str
    context_id: str
    metadata: Mapping[str, Any] = {}
    extensions: tuple[str, ...] = ()


class TaskArtifact(Struct, frozen=True):
    """A result of a task."""

    id: str
    parts: tuple[dict[str, Any], ...]
    name: str = "result"


class TaskStatus(Struct, frozen=True):
    """Status of a task. `at` in microseconds."""

    state: A2AState
    at: int
    message: TaskMessage | None = None


class A2ATask(Struct, frozen=True, kw_only=True):
    """A task: a delegation, or a message with the answer to it.

    `rev`: version of its delegation, 0 for a message. `last_seq`: position of the newest message to its agent.
    `known_ids`: ids of the rows that it was read from."""

    id: str
    context_id: str
    org_id: str
    workspace_id: str
    status: TaskStatus
    artifacts: tuple[TaskArtifact, ...] = ()
    history: tuple[TaskMessage, ...] = ()
    metadata: Mapping[str, Any] = {}
    rev: int = 0
    is_delegation: bool = False
    last_seq: int = 0
    known_ids: frozenset[str] = frozenset()


class StatusUpdate(Struct, frozen=True):
    """Event: a task has another status. `is_final`: the stream ends with it."""

    task_id: str
    context_id: str
    status: TaskStatus
    is_final: bool = False
    metadata: Mapping[str, Any] = {}


class ArtifactUpdate(Struct, frozen=True):
    """Event: a task has a result, whole."""

    task_id: str
    context_id: str
    artifact: TaskArtifact


StreamEvent = A2ATask | TaskMessage | StatusUpdate | ArtifactUpdate
"""What an A2A stream and a push notification carry."""


def to_timestamp(at: int) -> str:
    """Return a time (microseconds) in RFC 3339, UTC, with milliseconds."""
    seconds, rest = divmod(at, SECOND)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest // _MILLISECOND:03d}Z"


# -- rendering ---------------------------------------------------------------------------------------------------------


def render_part(part: Mapping[str, Any], line: A2ALine) -> dict[str, Any]:
    """Return a part as a line of the protocol writes it."""
    metadata = {"metadata": part["metadata"]} if part.get("metadata") else {}
    kind = part["kind"]
    if kind == "file":
        file = {name: part["file"][name] for name in _PUBLIC_FILE_MEMBERS if part["file"].get(name) is not None}
        if line is A2ALine.V0_3:
            return {"kind": "file", "file": file, **metadata}
        if "bytes" in file:
            file.pop("uri", None)
        return {_FILE_MEMBERS[name]: value for name, value in file.items()} | metadata
    if line is A2ALine.V0_3:
        return {"kind": kind, kind: part[kind], **metadata}
    media_type = {"mediaType": part["mediaType"]} if isinstance(part.get("mediaType"), str) else {}
    return {kind: part[kind], **media_type, **metadata}


def render_message(message: TaskMessage, line: A2ALine) -> dict[str, Any]:
    """Return a message as a line of the protocol writes it."""
    kind = {"kind": "message"} if line is A2ALine.V0_3 else {}
    role = message.role if line is A2ALine.V0_3 else _V1_ROLES[message.role]
    rendered: dict[str, Any] = {
        **kind,
        "messageId": message.id,
        "role": role,
        "parts": [render_part(part, line) for part in message.parts],
        "taskId": message.task_id,
        "contextId": message.context_id,
    }
    if message.metadata:
        rendered["metadata"] = dict(message.metadata)
    if message.extensions:
        rendered["extensions"] = list(message.extensions)
    return rendered


def render_status(status: TaskStatus, line: A2ALine) -> dict[str, Any]:
    """Return a status as a line of the protocol writes it."""
    message = {} if status.message is None else {"message": render_message(status.message, line)}
    return {"state": status.state.spelled(line), **message, "timestamp": to_timestamp(status.at)}


def render_artifact(artifact: TaskArtifact, line: A2ALine) -> dict[str, Any]:
    """Return a result as a line of the protocol writes it."""
    parts = [render_part(part, line) for part in artifact.parts]
    return {"artifactId": artifact.id, "name": artifact.name, "parts": parts}


def render_task(
    task: A2ATask, line: A2ALine, history_length: int | None = None, *, with_artifacts: bool = True
) -> dict[str, Any]:
    """Return a task as a line of the protocol writes it.

    `history_length`: only the newest messages; None: all, 0: no history."""
    kind = {"kind": "task"} if line is A2ALine.V0_3 else {}
    history: Sequence[TaskMessage] = task.history
    if history_length is not None:
        history = history[len(history) - history_length :] if 0 < history_length < len(history) else history
        history = () if history_length == 0 else history
    rendered: dict[str, Any] = {
        **kind,
        "id": task.id,
        "contextId": task.context_id,
        "status": render_status(task.status, line),
    }
    if task.artifacts and with_artifacts:
        rendered["artifacts"] = [render_artifact(each, line) for each in task.artifacts]
    if history:
        rendered["history"] = [render_message(each, line) for each in history]
    if task.metadata:
        rendered["metadata"] = dict(task.metadata)
    return rendered


def render_stream_event(event: StreamEvent, line: A2ALine) -> dict[str, Any]:
    """Return an event of a stream, or a notification, as a line of the protocol writes it."""
    if isinstance(event, A2ATask):
        task = render_task(event, line)
        return task if line is A2ALine.V0_3 else {"task": task}
    if isinstance(event, TaskMessage):
        message = render_message(event, line)
        return message if line is A2ALine.V0_3 else {"message": message}
    ids = {"taskId": event.task_id, "contextId": event.context_id}
    if isinstance(event, StatusUpdate):
        metadata = {"metadata": dict(event.metadata)} if event.metadata else {}
        update = {**ids, "status": render_status(event.status, line), **metadata}
        if line is A2ALine.V0_3:
            return {"kind": "status-update", **update, "final": event.is_final}
        return {"statusUpdate": update}
    whole = {**ids, "artifact": render_artifact(event.artifact, line), **_WHOLE}
    return {"kind": "artifact-update", **whole} if line is A2ALine.V0_3 else {"artifactUpdate": whole}


_WHOLE: Mapping[str, Any] = {"append": False, "lastChunk": True}


# -- parsing -----------------------------------------------------------------------------------------------------------


def parse_v1_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message of A2A 1.0 in the form of 0.3. Raises InvalidMessage.

    Unknown members are ignored."""
    role = message.get("role")
    if not isinstance(role, str) or role not in _PLAIN_ROLES:
        raise InvalidMessage(reason="params.message.role is missing or has another value. Use ROLE_USER or ROLE_AGENT.")
    parts = message.get("parts")
    if not isinstance(parts, list) or not parts:
        raise InvalidMessage(reason="params.message.parts is missing or empty. Send a list with at least one part.")
    kept = {name: message[name] for name in _MESSAGE_MEMBERS if message.get(name) not in (None, "")}
    return {**kept, "kind": "message", "role": _PLAIN_ROLES[role], "parts": [parse_v1_part(part) for part in parts]}


_MESSAGE_MEMBERS = ("messageId", "contextId", "taskId", "metadata", "extensions", "referenceTaskIds")


def parse_v1_part(part: Any) -> dict[str, Any]:
    """Return a part of A2A 1.0 in the form of 0.3. Raises InvalidMessage."""
    if not isinstance(part, dict):
        raise InvalidMessage(reason="a part of the message is not an object. Send each part as an object.")
    contents = [name for name in _V1_CONTENTS if part.get(name) is not None]
    if len(contents) != 1:
        raise InvalidMessage(
            reason=f"a part must have exactly one of {', '.join(_V1_CONTENTS)}. Send one part for each."
        )
    content = contents[0]
    value = part[content]
    metadata = part.get("metadata")
    common = {"metadata": metadata} if isinstance(metadata, dict) and metadata else {}
    if content in ("raw", "url"):
        file = {name: part[each] for name, each in _FILE_MEMBERS.items() if isinstance(part.get(each), str)}
        if not isinstance(value, str):
            raise InvalidMessage(reason=f"{content} of a part is not a text. Send base64 as raw, or an address as url.")
        return {"kind": "file", "file": file, **common}
    if content == "text" and not isinstance(value, str):
        raise InvalidMessage(reason="text of a part is not a text. Send data under data.")
    media_type = part.get("mediaType")
    media = {"mediaType": media_type} if isinstance(media_type, str) and media_type else {}
    if content == "data" and not isinstance(value, dict | list):
        # 1.0 allows any JSON value; agents read objects and lists.
        value = {"value": value}
    return {"kind": content, content: value, **media, **common}


def media_types_of(parts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the media types that the parts of a message name."""
    named = [part["file"].get("mimeType") if part["kind"] == "file" else part.get("mediaType") for part in parts]
    return [each for each in named if isinstance(each, str) and each]


def with_status(task: A2ATask, status: TaskStatus) -> A2ATask:
    """Return a task with another status."""
    return structs.replace(task, status=status)
