"""A2A agents of others in one process: strict about what real ones refuse, of both lines and both transports."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from molecule_core.common.errors import FetchFailed, UnsafeUrl
from molecule_core.common.net.safe_fetch import FetchResult, FetchStream
from testing.push_agents import PushNetwork

V1, V0_3 = "1.0", "0.3"
_METHODS = {
    "message/send": "SendMessage",
    "message/stream": "SendStreamingMessage",
    "tasks/get": "GetTask",
    "tasks/cancel": "CancelTask",
    "tasks/resubscribe": "SubscribeToTask",
}
_STREAMS = ("SendStreamingMessage", "SubscribeToTask")
_FINAL = ("completed", "failed", "canceled", "rejected")


class RpcError(Exception):
    """An error that an agent answers."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Call(msgspec.Struct):
    """A request that an agent understood: the operation by its name in 1.0."""

    operation: str
    params: dict[str, Any]
    headers: dict[str, str]


Script = Callable[["StubAgent", dict[str, Any], dict[str, Any]], None]


def completed(text: str = "done") -> Script:
    """A script that completes each task at once."""

    def run(agent: "StubAgent", task: dict[str, Any], _message: dict[str, Any]) -> None:
        agent.add_artifact(task, text)
        agent.set_state(task, "completed")

    return run


def working(_agent: "StubAgent", _task: dict[str, Any], _message: dict[str, Any]) -> None:
    """A script that leaves each task to the test."""


class StubAgent:
    """An agent with a card. `script` is called with the task and the message of each send."""

    def __init__(
        self,
        host: str = "agent.example",
        *,
        line: str = V1,
        binding: str = "JSONRPC",
        streaming: bool = False,
        tenant: str = "",
        push: bool = False,
        script: Script = working,
    ) -> None:
        self.host = host
        self.line = line
        self.binding = binding
        self.streaming = streaming
        self.tenant = tenant
        self.push = push
        self.push_configs: list[dict[str, Any]] = []
        self.script = script
        self.name = "Stub"
        self.more: dict[str, Any] = {}
        self.required_headers: dict[str, str] = {}
        self.tasks: dict[str, dict[str, Any]] = {}
        self.calls: list[Call] = []
        self.headers_seen: list[dict[str, str]] = []
        self.card_gets: list[dict[str, str]] = []
        self.is_down = False
        self.answer_with: Callable[[str], Awaitable[FetchResult] | None] = lambda _operation: None
        self.streams: list[StubStream] = []

    @property
    def card_url(self) -> str:
        """The address of the card."""
        return f"https://{self.host}/.well-known/agent-card.json"

    @property
    def url(self) -> str:
        """The address of the interface."""
        return f"https://{self.host}/rpc"

    @property
    def card(self) -> dict[str, Any]:
        """The card as this line writes it."""
        card = {
            "name": self.name,
            "description": "A stub.",
            "version": "1",
            "capabilities": {"streaming": self.streaming, **({"pushNotifications": True} if self.push else {})},
            "defaultInputModes": ["text"],
            "defaultOutputModes": ["text"],
            "skills": [],
            **self.more,
        }
        if self.line == V0_3:
            return {**card, "url": self.url, "protocolVersion": "0.3.0", "preferredTransport": self.binding}
        interface = {"url": self.url, "protocolBinding": self.binding, "protocolVersion": "1.0"}
        if self.tenant:
            interface["tenant"] = self.tenant
        return {**card, "supportedInterfaces": [interface]}

    @property
    def etag(self) -> str:
        """Changes with the card."""
        return f'"{hash(msgspec.json.encode(self.card))}"'

    def operations(self) -> list[str]:
        """The operations that it was asked for, in order."""
        return [each.operation for each in self.calls]

    def messages(self) -> list[dict[str, Any]]:
        """The messages that it was sent."""
        return [each.params["message"] for each in self.calls if "message" in each.params]

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def only_task(self) -> dict[str, Any]:
        """The one task that it has."""
        (task,) = self.tasks.values()
        return task

    def set_state(self, task: dict[str, Any], state: str, text: str = "") -> None:
        """Change the state of a task; a stream of it learns of it."""
        status: dict[str, Any] = {"state": state}
        if text:
            parts = [{"kind": "text", "text": text}]
            count = len(task["history"])
            message = {"kind": "message", "role": "agent", "messageId": f"{task['id']}-{count}", "parts": parts}
            status["message"] = message
            task["history"].append(message)
        task["status"] = status
        self._emit(task, {"kind": "status-update", "status": status, "final": state in _FINAL})
        if state in _FINAL or state.endswith("required"):
            self._end_streams(task)

    def add_artifact(self, task: dict[str, Any], text: str, *, parts: Any = None, append: bool = False) -> None:
        """Add an artifact, or text to the one before."""
        new = parts if parts is not None else [{"kind": "text", "text": text}]
        if append and task["artifacts"]:
            task["artifacts"][-1]["parts"][-1]["text"] += text
            artifact = {"artifactId": task["artifacts"][-1]["artifactId"], "parts": new}
        else:
            artifact = {"artifactId": f"a{len(task['artifacts'])}", "parts": msgspec.to_builtins(new)}
            task["artifacts"].append(msgspec.json.decode(msgspec.json.encode(artifact)))
        self._emit(task, {"kind": "artifact-update", "artifact": artifact, "append": append})

    def _emit(self, task: dict[str, Any], event: dict[str, Any]) -> None:
        whole = {**event, "taskId": task["id"], "contextId": task["contextId"]}
        for stream in self.streams:
            if stream.task_id == task["id"]:
                stream.send(self._event(whole))

    def _end_streams(self, task: dict[str, Any]) -> None:
        for stream in self.streams:
            if stream.task_id == task["id"]:
                stream.end()

    def _event(self, event: dict[str, Any]) -> Any:
        if self.line == V0_3:
            return event
        kind = event["kind"]
        member = {"task": "task", "message": "message", "status-update": "statusUpdate"}.get(kind, "artifactUpdate")
        return {member: to_v1(event)}

    # -- requests ------------------------------------------------------------------------------------------------------

    def respond(self, url: str, headers: dict[str, str], body: bytes | None) -> "tuple[str, Any, StubStream | None]":
        """Answer a request: its operation, its result, and its stream. Raises RpcError."""
        known = {name.lower(): value for name, value in headers.items()}
        self.headers_seen.append(known)
        if known.get("a2a-version") != self.line:
            raise RpcError(-32009, f"A2A version {known.get('a2a-version')!r} is not supported")
        operation, params = self._parse_rpc(body) if self.binding == "JSONRPC" else self._parse_rest(url, body)
        if params.get("tenant", "") != self.tenant:
            raise RpcError(-32602, "the tenant is not the one of the card")
        self.calls.append(Call(operation, params, known))
        if operation in ("SendMessage", "SendStreamingMessage"):
            if operation in _STREAMS and not self.streaming:
                raise RpcError(-32004, "streaming is not supported")
            self._check_push(params.get("configuration", {}))
            task = self._accept(params["message"])
        elif operation == "ListTasks":
            found = [each for each in self.tasks.values() if each["contextId"] == params["contextId"]]
            listed = [{name: item for name, item in to_v1(each).items() if name != "artifacts"} for each in found]
            return operation, {"tasks": listed, "nextPageToken": ""}, None
        else:
            task = self._task(params["id"])
            if operation == "CancelTask":
                if task["status"]["state"] in _FINAL:
                    raise RpcError(-32002, "the task cannot be canceled")
                self.set_state(task, "canceled")
        if operation in _STREAMS:
            return operation, None, self._open(task)
        is_wrapped = self.line == V1 and operation == "SendMessage"
        shown = to_v1(task) if self.line == V1 else task
        return operation, {"task": shown} if is_wrapped else shown, None

    def _open(self, task: dict[str, Any]) -> "StubStream":
        stream = StubStream(task["id"])
        stream.send(self._event({"kind": "task", **task}))
        state = task["status"]["state"]
        if state in _FINAL or state.endswith("required"):
            stream.end()
        self.streams.append(stream)
        return stream

    def _parse_rpc(self, body: bytes | None) -> tuple[str, dict[str, Any]]:
        value = msgspec.json.decode(body or b"")
        if not isinstance(value.get("id"), str | int) or value.get("jsonrpc") != "2.0":
            raise RpcError(-32600, "the id of the request is missing")
        method = value["method"]
        operation = _METHODS.get(method) if self.line == V0_3 else method
        if operation is None or (self.line == V1 and "/" in method):
            raise RpcError(-32601, f"unknown method {method}")
        return operation, value["params"]

    def _parse_rest(self, url: str, body: bytes | None) -> tuple[str, dict[str, Any]]:
        split = urlsplit(url)
        path, query = split.path.removeprefix("/rpc"), parse_qs(split.query)
        tenant = {}
        if self.tenant:
            assert path.startswith(f"/{self.tenant}/"), path
            path, tenant = path.removeprefix(f"/{self.tenant}"), {"tenant": self.tenant}
        if path.startswith("/message:"):
            operation = "SendMessage" if path.endswith(":send") else "SendStreamingMessage"
            return operation, {**tenant, **msgspec.json.decode(body or b"")}
        if path == "/tasks":
            return "ListTasks", {**tenant, **{name: values[0] for name, values in query.items()}}
        task_id, _, verb = path.removeprefix("/tasks/").partition(":")
        operation = {"": "GetTask", "cancel": "CancelTask", "subscribe": "SubscribeToTask"}[verb]
        assert (body is None) == (operation != "CancelTask")
        return operation, {**tenant, "id": task_id}

    def _task(self, task_id: str) -> dict[str, Any]:
        if task_id not in self.tasks:
            raise RpcError(-32001, "the task was not found")
        return self.tasks[task_id]

    def _check_push(self, configuration: dict[str, Any]) -> None:
        """Keep where to notify, in the shape of this line."""
        member = "taskPushNotificationConfig" if self.line == V1 else "pushNotificationConfig"
        if configuration.keys() - {"returnImmediately" if self.line == V1 else "blocking", member}:
            raise RpcError(-32602, f"unknown members of the configuration: {list(configuration)}")
        if (config := configuration.get(member)) is None:
            return
        if not self.push:
            raise RpcError(-32003, "push notifications are not supported")
        if ("schemes" in config["authentication"]) != (self.line == V0_3):
            raise RpcError(-32602, "the authentication is not of this version")
        self.push_configs.append(config)

    def _accept(self, message: dict[str, Any]) -> dict[str, Any]:
        self._check_shape(message)
        task_id = message.get("taskId")
        task: dict[str, Any]
        if task_id is None:
            context_id = message.get("contextId") or "made-up"
            number = len(self.tasks) + 1
            task = {"kind": "task", "id": f"task-{number}", "contextId": context_id, "artifacts": [], "history": []}
            self.tasks[task["id"]] = task
        else:
            task = self._task(task_id)
            if message.get("contextId", task["contextId"]) != task["contextId"]:
                raise RpcError(-32602, "the context is not that of the task")
            if task["status"]["state"] in _FINAL:
                raise RpcError(-32004, "the task has ended")
        task["history"].append(message)
        task["status"] = {"state": "working"}
        self.script(self, task, message)
        return task

    def _check_shape(self, message: dict[str, Any]) -> None:
        if not message.get("messageId"):
            raise RpcError(-32602, "messageId is missing")
        if self.line == V1:
            if "kind" in message or any("kind" in part for part in message["parts"]):
                raise RpcError(-32602, "kind is not a field")
            if message["role"] != "ROLE_USER":
                raise RpcError(-32602, "unknown role")
        elif message.get("kind") != "message" or any("kind" not in part for part in message["parts"]):
            raise RpcError(-32602, "kind is missing")


def to_v1(value: Any) -> Any:
    """A task, message, event or part in the shape of A2A 1.0."""
    if isinstance(value, list):
        return [to_v1(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("kind") == "file":
        names = {"bytes": "raw", "uri": "url", "name": "filename", "mimeType": "mediaType"}
        return {names[name]: item for name, item in value["file"].items()}
    members = {name: to_v1(item) for name, item in value.items() if name not in ("kind", "final")}
    if isinstance(value.get("state"), str):
        members["state"] = "TASK_STATE_" + value["state"].upper().replace("-", "_")
    if value.get("role") in ("agent", "user"):
        members["role"] = f"ROLE_{value['role'].upper()}"
    return members


class StubStream(FetchStream):
    """A stream of server-sent events that the test writes."""

    def __init__(self, task_id: str) -> None:
        self.status = 200
        self.headers = {"content-type": "text/event-stream; charset=utf-8"}
        self.task_id = task_id
        self.is_closed = False
        self.wrap: Callable[[Any], Any] = lambda event: event
        self._pieces: asyncio.Queue[bytes | FetchFailed] = asyncio.Queue()

    def send(self, event: Any) -> None:
        """Write an event."""
        self._pieces.put_nowait(b"event: message\r\ndata: " + msgspec.json.encode(self.wrap(event)) + b"\r\n\r\n")

    def end(self) -> None:
        """End the stream."""
        self._pieces.put_nowait(b"")

    def cut(self) -> None:
        """Break the connection."""
        self._pieces.put_nowait(FetchFailed(reason="connection lost", sent=True, status=None))

    async def read(self) -> bytes:
        piece = await self._pieces.get()
        if isinstance(piece, FetchFailed):
            raise piece
        return piece

    def close(self) -> None:
        self.is_closed = True


class A2ANetwork(PushNetwork):
    """A network with A2A agents, token endpoints and addresses that are forbidden."""

    def __init__(self, *agents: StubAgent) -> None:
        super().__init__()
        self.by_host = {each.host: each for each in agents}
        self.tokens: dict[str, Callable[[dict[str, str], bytes], FetchResult]] = {}
        self.forbidden: set[str] = set()
        # Cards and key sets that a test writes, by their urls.
        self.cards: dict[str, Any] = {}
        self.keys: dict[str, Any] = {}
        self.key_gets: list[str] = []

    def add(self, agent: StubAgent) -> StubAgent:
        """Add an agent."""
        self.by_host[agent.host] = agent
        return agent

    def _agent(self, url: str) -> StubAgent | None:
        host = urlsplit(url).netloc
        if host in self.forbidden:
            raise UnsafeUrl(reason=f"{host} is not public", advice="Ask the operator.")
        agent = self.by_host.get(host)
        if agent is not None and agent.is_down:
            raise FetchFailed(reason="connection refused", sent=False, status=None)
        return agent

    async def get(self, url: str, headers: dict[str, str], *, timeout_seconds: float, max_bytes: int) -> FetchResult:
        agent = self._agent(url)
        if url in self.keys:
            self.key_gets.append(url)
            return _json(200, self.keys[url])
        if url in self.cards:
            return _json(200, self.cards[url])
        if agent is None:
            return await super().get(url, headers, timeout_seconds=timeout_seconds, max_bytes=max_bytes)
        if url == agent.card_url:
            agent.card_gets.append(headers)
            if headers.get("If-None-Match") == agent.etag:
                raise FetchFailed(reason="it responded with a redirect (304)", sent=True, status=304)
            return FetchResult(200, {"etag": agent.etag}, msgspec.json.encode(agent.card))
        return await self._call(agent, url, headers, None)

    async def post(
        self, url: str, headers: dict[str, str], body: bytes, *, timeout_seconds: float, max_bytes: int
    ) -> FetchResult:
        if url in self.tokens:
            return self.tokens[url](headers, body)
        agent = self._agent(url)
        if agent is None:
            return await super().post(url, headers, body, timeout_seconds=timeout_seconds, max_bytes=max_bytes)
        return await self._call(agent, url, headers, body)

    async def check_url(self, url: str) -> None:
        self._agent(url)

    async def _call(self, agent: StubAgent, url: str, headers: dict[str, str], body: bytes | None) -> FetchResult:
        if refused := _refusal(agent, headers):
            agent.headers_seen.append({name.lower(): value for name, value in headers.items()})
            return refused
        operation = "?"
        if body is not None and agent.binding == "JSONRPC":
            operation = str(msgspec.json.decode(body)["method"])
        if (instead := agent.answer_with(operation)) is not None:
            return await instead
        try:
            _, result, _ = agent.respond(url, headers, body)
        except RpcError as error:
            return _error_response(agent, error)
        return _json(200, _enveloped(agent, result))

    async def open_stream(
        self, url: str, headers: dict[str, str], body: bytes | None, *, idle_seconds: float, max_bytes: int
    ) -> FetchStream:
        agent = self._agent(url)
        assert agent is not None
        if refused := _refusal(agent, headers):
            return _whole(refused)
        try:
            _, _, stream = agent.respond(url, headers, body)
        except RpcError as error:
            return _whole(_error_response(agent, error))
        assert stream is not None
        if agent.binding == "JSONRPC":
            _rewrap(stream, lambda event: _enveloped(agent, event))
        return stream


def _refusal(agent: StubAgent, headers: dict[str, str]) -> FetchResult | None:
    is_allowed = all(headers.get(name) == value for name, value in agent.required_headers.items())
    return None if is_allowed else _json(401, {"error": {"code": 401, "message": "unknown credential"}})


def _enveloped(agent: StubAgent, result: Any) -> Any:
    return {"jsonrpc": "2.0", "id": "1", "result": result} if agent.binding == "JSONRPC" else result


def _error_response(agent: StubAgent, error: RpcError) -> FetchResult:
    members = {"code": error.code, "message": str(error)}
    if agent.binding == "JSONRPC":
        return _json(200, {"jsonrpc": "2.0", "id": None, "error": members})
    return _json(400, {"error": members})


def _json(status: int, value: Any) -> FetchResult:
    return FetchResult(status, {"content-type": "application/json"}, msgspec.json.encode(value))


def _whole(result: FetchResult) -> StubStream:
    stream = StubStream("")
    stream.status, stream.headers = result.status, result.headers
    stream._pieces.put_nowait(result.body)
    stream.end()
    return stream


def _rewrap(stream: StubStream, wrap: Callable[[Any], Any]) -> None:
    """Envelope the events that a stream has already, and all later ones."""
    stream.wrap = wrap
    waiting = []
    while not stream._pieces.empty():
        waiting.append(stream._pieces.get_nowait())
    for piece in waiting:
        if isinstance(piece, bytes) and piece:
            stream.send(msgspec.json.decode(piece.partition(b"data: ")[2].strip()))
        else:
            stream._pieces.put_nowait(piece)
