"""How hosts speak to a model: their requests as `Asked`, an act as the stream of events that they expect.

As far as a scripted model needs them.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from tests.interop.model_scripts import Act, Asked, Call, Result

Json = dict[str, Any]


class Dialect(Protocol):
    """An API of a model."""

    def takes(self, path: str) -> bool:
        """Whether a request for this path asks the model."""

    def asked(self, body: Json) -> Asked | None:
        """A request; None if it is an aside of the host's (a title, a probe), which any words answer."""

    def events(self, act: Act, number: int, body: Json) -> Iterator[Json]:
        """An act as the answer to request `number`."""


def stream(events: Iterable[Json]) -> bytes:
    """Events as a body of the type text/event-stream; those that have a type are named after it."""
    named = ((f"event: {each['type']}\n" if "type" in each else "", each) for each in events)
    return "".join(f"{name}data: {json.dumps(each)}\n\n" for name, each in named).encode()


def texts(content: Any) -> str:
    """The text in a content: a string, or parts."""
    if isinstance(content, str):
        return content
    return "\n".join(str(part["text"]) for part in content or () if isinstance(part.get("text"), str))


class Messages:
    """Anthropic's, as Claude Code uses it. `usage`: what each request is said to have used."""

    def __init__(self) -> None:
        self.usage: Json = {"input_tokens": 1, "output_tokens": 1}

    def takes(self, path: str) -> bool:
        """Counting tokens is another path."""
        return path == "/v1/messages"

    def asked(self, body: Json) -> Asked | None:
        """Asides carry no tools. Tools marked as deferred are named to the model, and cannot be called."""
        tools = [tool["name"] for tool in body.get("tools", ()) if not tool.get("defer_loading")]
        if not tools:
            return None
        parts = [part for each in body["messages"] if isinstance(each["content"], list) for part in each["content"]]
        names = {part["id"]: part["name"] for part in parts if part.get("type") == "tool_use"}
        results = [
            Result(names[part["tool_use_id"]], texts(part.get("content")), part.get("is_error") is True)
            for part in parts
            if part.get("type") == "tool_result"
        ]
        said = [texts(body.get("system")), *(texts(each["content"]) for each in body["messages"])]
        return Asked(tuple(tools), tuple(results), "\n".join(said))

    def events(self, act: Act, number: int, body: Json) -> Iterator[Json]:
        """One content block, whole in one delta."""
        called = isinstance(act, Call)
        message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"]}
        empty = {**message, "content": [], "stop_reason": None, "stop_sequence": None, "usage": self.usage}
        yield {"type": "message_start", "message": empty}
        if isinstance(act, Call):
            block: Json = {"type": "tool_use", "id": f"toolu_{number}", "name": act.tool, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(act.arguments)}
        else:
            block = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": act}
        yield {"type": "content_block_start", "index": 0, "content_block": block}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        end = {"stop_reason": "tool_use" if called else "end_turn", "stop_sequence": None}
        yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": self.usage["output_tokens"]}}
        yield {"type": "message_stop"}


class Responses:
    """OpenAI's, as Codex uses it. Tools of an MCP server stand in a namespace; here `namespace.tool`.

    `usage`: what each request is said to have used."""

    def __init__(self) -> None:
        self.usage: Json = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}

    def takes(self, path: str) -> bool:
        """One path for all."""
        return path == "/v1/responses"

    def asked(self, body: Json) -> Asked | None:
        """Tools of a namespace and bare ones alike."""
        tools = []
        for tool in body.get("tools", ()):
            inner = [f"{tool['name']}.{each['name']}" for each in tool.get("tools", ())]
            tools += inner or [str(tool.get("name", tool["type"]))]
        items = body["input"]
        names = {
            item["call_id"]: ".".join(filter(None, (item.get("namespace"), item["name"])))
            for item in items
            if item.get("type") == "function_call"
        }
        results = [
            Result(names[item["call_id"]], texts(item["output"]))
            for item in items
            if item.get("type") == "function_call_output"
        ]
        said = [str(body.get("instructions", "")), *(texts(item.get("content")) for item in items)]
        said += [str(tool.get("description", "")) for tool in body.get("tools", ()) if tool["type"] == "namespace"]
        return Asked(tuple(tools), tuple(results), "\n".join(said))

    def events(self, act: Act, number: int, body: Json) -> Iterator[Json]:
        """One output item, whole."""
        if isinstance(act, Call):
            namespace, _, name = act.tool.rpartition(".")
            item: Json = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}"}
            item |= {"namespace": namespace, "name": name, "arguments": json.dumps(act.arguments)}
        else:
            part = {"type": "output_text", "text": act, "annotations": []}
            item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": [part]}
        item["status"] = "completed"
        response = {"id": f"resp_{number}", "object": "response", "model": body["model"]}
        yield {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}}
        yield {"type": "response.output_item.added", "output_index": 0, "item": item}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        done = {**response, "status": "completed", "output": [item], "usage": self.usage}
        yield {"type": "response.completed", "response": done}


class Contents:
    """Google's, as Gemini CLI uses it."""

    def takes(self, path: str) -> bool:
        """Whatever the model is called."""
        return path.endswith(":streamGenerateContent")

    def asked(self, body: Json) -> Asked | None:
        """A function's response stands under its name, with what it gave as text."""
        declared = [each for tool in body.get("tools", ()) for each in tool.get("functionDeclarations", ())]
        if not declared:
            return None
        parts = [part for each in body["contents"] for part in each["parts"]]
        responses = [part["functionResponse"] for part in parts if "functionResponse" in part]
        results = [Result(each["name"], _text_in(each["response"]), "error" in each["response"]) for each in responses]
        said = [texts(body.get("systemInstruction", {}).get("parts")), texts(parts)]
        return Asked(tuple(each["name"] for each in declared), tuple(results), "\n".join(said))

    def events(self, act: Act, number: int, body: Json) -> Iterator[Json]:
        """One candidate with one part."""
        called = {"name": act.tool, "args": act.arguments} if isinstance(act, Call) else None
        part = {"text": act} if called is None else {"functionCall": called}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        yield {"candidates": [candidate], "usageMetadata": usage}


class Completions:
    """OpenAI's older one, as opencode uses it with providers that are compatible."""

    def takes(self, path: str) -> bool:
        """One path for all."""
        return path == "/v1/chat/completions"

    def asked(self, body: Json) -> Asked | None:
        """Asides, as for a title, carry no tools."""
        tools = [str(tool["function"]["name"]) for tool in body.get("tools", ())]
        if not tools:
            return None
        messages = body["messages"]
        calls = [call for each in messages for call in each.get("tool_calls") or ()]
        names = {call["id"]: call["function"]["name"] for call in calls}
        results = [
            Result(names[each["tool_call_id"]], texts(each["content"])) for each in messages if each["role"] == "tool"
        ]
        said = [texts(each.get("content")) for each in messages if each["role"] != "tool"]
        return Asked(tuple(tools), tuple(results), "\n".join(said))

    def events(self, act: Act, number: int, body: Json) -> Iterator[Json]:
        """One delta, whole."""
        if isinstance(act, Call):
            function = {"name": act.tool, "arguments": json.dumps(act.arguments)}
            delta: Json = {
                "tool_calls": [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]
            }
        else:
            delta = {"content": act}
        chunk = {"id": f"chat_{number}", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
        yield {**chunk, "choices": [{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": None}]}
        end = "tool_calls" if isinstance(act, Call) else "stop"
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        yield {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": end}], "usage": usage}


def _text_in(response: Json) -> str:
    """What a function gave: its output or error as text, else all of it."""
    for name in ("output", "error"):
        if isinstance(response.get(name), str):
            return str(response[name])
    return json.dumps(response)
