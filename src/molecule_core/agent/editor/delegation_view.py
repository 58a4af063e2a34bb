"""Shows the delegations of a workspace as tool calls, while a prompt runs. Pure."""

from collections.abc import Callable
from typing import Any

from molecule_core.agent.editor.updates import tool_call, tool_call_update

Members = dict[str, Any]
_ENDED = {"DELEGATION_COMPLETE": "completed", "DELEGATION_FAILED": "failed"}


class DelegationView:
    """The delegations that were shown in a session, until their end."""

    def __init__(self, name_of: Callable[[str], str]) -> None:
        self._name_of = name_of
        self._open: set[str] = set()

    def handle_event(self, name: str, payload: Members) -> list[Members]:
        """Return the updates for an event of the workspace."""
        delegation_id = str(payload.get("delegation_id") or "")
        call_id = f"delegation-{delegation_id}"
        if name == "DELEGATION_SENT" and delegation_id not in self._open:
            self._open.add(delegation_id)
            task = str(payload.get("task_preview") or "")
            title = f"Delegated to {self._name_of(str(payload.get('target_id')))}: {task}"
            return [tool_call(call_id, title, status="in_progress", text=task)]
        if delegation_id not in self._open:
            return []
        if name in _ENDED:
            self._open.discard(delegation_id)
            text = str(payload.get("response_preview") or payload.get("error") or "")
            return [tool_call_update(call_id, status=_ENDED[name], text=text)]
        if name == "DELEGATION_STATUS" and (text := _progress_text(payload)):
            return [tool_call_update(call_id, status="in_progress", text=text)]
        return []


def _progress_text(payload: Members) -> str:
    percent = payload.get("percent")
    parts = (str(payload.get("current_step") or ""), f"{percent} %" if isinstance(percent, int | float) else "")
    return ", ".join(part for part in parts if part)
