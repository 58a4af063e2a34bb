"""A running turn of Codex: what its notifications add up to."""

import asyncio
from typing import Any

from molecule_core.agent.bridges.codex.approvals import PATCH, SHELL
from molecule_core.agent.bridges.sessions import DriverDied, ToolStatus, TurnEvents, TurnUsage

_STATUSES: dict[str, ToolStatus] = {"inProgress": "started", "completed": "completed"}
_MAX_TITLE = 200


class CodexTurn:
    """The running turn of a thread. `ended` has the `turn` object of the end."""

    def __init__(self, conversation: str, thread_id: str, events: TurnEvents, stop_requested: asyncio.Event) -> None:
        self.conversation = conversation
        self.thread_id = thread_id
        self.events = events
        self.id = ""
        """Codex' id of the turn; empty until it has confirmed the start."""
        self.ended: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.stop_requested = stop_requested
        self.beginning: asyncio.Task[None] | None = None
        """The request to start the turn; it has an end when `id` is known, or none was given."""
        self.is_interrupted = False
        """Whether Codex has confirmed that it ends the turn."""
        self.steered: set[str] = set()
        """Turn ids that were sent into this turn."""
        self.seen_ids: set[str] = set()
        """Message ids that Codex has put into the conversation."""
        self.items: dict[str, dict[str, Any]] = {}
        """Items by id, for approvals that name only the item."""
        self._texts: dict[str, str] = {}
        self._completed_text: str | None = None
        self.model = ""
        """The model of the thread, as Codex named it when it loaded the thread."""
        self._usage = [0, 0, 0]
        self._total: object = None

    @property
    def is_stopped(self) -> bool:
        """Return whether the turn is to end."""
        return self.stop_requested.is_set()

    def fail(self, error: DriverDied) -> None:
        """End the turn with the end of the program."""
        if not self.ended.done():
            self.ended.set_exception(error)
            self.ended.exception()  # a turn that nothing waits for any more is not an error

    @property
    def final_text(self) -> str:
        """Return the last whole message, or else the beginning of one."""
        if self._completed_text is not None:
            return self._completed_text
        return self.text_so_far

    @property
    def text_so_far(self) -> str:
        """Return all that was written, also messages that were broken off."""
        return "\n\n".join(filter(None, (text.strip() for text in self._texts.values())))

    @property
    def usage(self) -> TurnUsage | None:
        """Return the tokens of all requests of this turn."""
        if self._total is None:
            return None
        fresh, output, cached = self._usage
        # Codex counts cached tokens among those of the input.
        return TurnUsage(
            input_tokens=max(0, fresh - cached), output_tokens=output, cached_tokens=cached, model=self.model
        )

    def add_delta(self, params: dict[str, Any]) -> None:
        """Add a piece of a message."""
        item_id, delta = str(params.get("itemId", "")), params.get("delta")
        if not isinstance(delta, str):
            return
        if item_id not in self._texts and any(self._texts.values()):
            self.events.text("\n\n")
        self._texts[item_id] = self._texts.get(item_id, "") + delta
        self.events.text(delta)

    def start_item(self, item: dict[str, Any]) -> None:
        """Note an item that begins."""
        self._note_item(item, is_started=True)

    def complete_item(self, item: dict[str, Any]) -> None:
        """Note an item that is complete."""
        self._note_item(item, is_started=False)
        if item.get("type") == "agentMessage" and isinstance(item.get("text"), str):
            item_id = str(item.get("id", ""))
            if item_id not in self._texts:  # a program that sends no deltas
                self.add_delta({"itemId": item_id, "delta": item["text"]})
            self._texts[item_id] = self._completed_text = item["text"]

    def add_usage(self, usage: object) -> None:
        """Add the tokens of one request; the same report again adds nothing."""
        if not isinstance(usage, dict) or usage.get("total") == self._total:
            return
        self._total = usage.get("total")
        last = usage.get("last")
        if isinstance(last, dict):
            names = ("inputTokens", "outputTokens", "cachedInputTokens")
            self._usage = [
                used + (last[name] if isinstance(last.get(name), int) else 0)
                for used, name in zip(self._usage, names, strict=True)
            ]

    def _note_item(self, item: dict[str, Any], *, is_started: bool) -> None:
        item_id, kind = str(item.get("id", "")), item.get("type")
        self.items[item_id] = item
        if kind == "userMessage" and isinstance(item.get("clientId"), str):
            self.seen_ids.add(item["clientId"])
        named = describe_tool(item)
        if named is not None:
            status = "started" if is_started else _STATUSES.get(str(item.get("status")), "failed")
            self.events.tool(item_id, *named, status)


def describe_tool(item: dict[str, Any]) -> tuple[str, str] | None:
    """Return the tool and the short title of an item; None if it is no call of a tool."""
    match item.get("type"):
        case "commandExecution":
            return SHELL, _short(item.get("command"))
        case "fileChange":
            changes = item.get("changes")
            paths = [str(each.get("path", "")) for each in changes if isinstance(each, dict)] if changes else []
            return PATCH, _short(", ".join(paths))
        case "mcpToolCall":
            return str(item.get("tool", "")), _short(f"{item.get('server', '')} {item.get('tool', '')}")
        case "dynamicToolCall":
            return str(item.get("tool", "")), _short(item.get("tool"))
        case "webSearch":
            return "web_search", _short(item.get("query"))
    return None


def _short(text: object) -> str:
    flat = " ".join(str(text or "").split())
    return flat if len(flat) <= _MAX_TITLE else f"{flat[: _MAX_TITLE - 1]}…"
