"""A prompt of the editor from its message to the end of its turn: when it ends, and what the person reads then."""

import asyncio
from typing import Any

from msgspec import Struct

from molecule_core.agent.editor.live_view import LiveTurnView

Row = dict[str, Any]
END_TURN, CANCELLED = "end_turn", "cancelled"
_REACHABLE = ("online", "degraded")
_STORED = (None, "stored")
_STATUS_WORDS = {
    "paused": "is paused",
    "hibernated": "is hibernated",
    "awaiting_agent": "has no agent connected",
    "provisioning": "has no agent connected",
    "failed": "has failed",
}


class TurnTimes(Struct, frozen=True):
    """When a turn ends without an answer, in seconds. `wait`: since the last sign of work on it."""

    wait: float
    pick_up: float = 3.0
    offline: float = 20.0
    busy: float = 15.0
    stop: float = 5.0
    failed: float = 3.0


class TurnEnding(Struct, frozen=True):
    """The end of a turn. `is_closed`: no answer can come any more."""

    stop_reason: str
    text: str = ""
    is_closed: bool = False


class PromptTurn:
    """A running prompt. `name`: of the workspace. Only decides; the session sends what it returns."""

    def __init__(self, client_id: str, name: str, times: TurnTimes, now: float) -> None:
        self.client_id = client_id
        self.activity_id = ""
        """Id of the message on the server; empty until it is known."""
        self.view = LiveTurnView(client_id)
        self.done: asyncio.Future[TurnEnding] = asyncio.get_running_loop().create_future()
        self.is_ending = False
        """Whether the end of the turn is being sent."""
        self._name = name
        self._times = times
        self._began = self._last_sign = now
        self._delivery: str | None = None
        self._noted: set[str] = set()
        self._offline_since: float | None = None
        self._cancelled_at: float | None = None
        self._failed_at: float | None = None

    @property
    def is_cancelled(self) -> bool:
        """Return whether the person has cancelled the prompt."""
        return self._cancelled_at is not None

    @property
    def waits_for_pick_up(self) -> bool:
        """Return whether the message is in the inbox and no agent has it."""
        return self._delivery in _STORED

    def note_sign(self, now: float) -> None:
        """Note that something happened with the message."""
        self._last_sign = now

    def cancel(self, now: float) -> None:
        """Note that the person has cancelled the prompt."""
        self._cancelled_at = now

    def continue_with(self, client_id: str, now: float) -> None:
        """Continue with a further message of the person: the choice that answers a question."""
        self.client_id, self.activity_id = client_id, ""
        self._delivery, self._offline_since = None, None
        self._began = self._last_sign = now
        self._noted.clear()

    def note_once(self, name: str, text: str) -> str:
        """Return a text the first time, and then nothing."""
        if name in self._noted:
            return ""
        self._noted.add(name)
        return text

    def handle_row(self, row: Row, now: float) -> TurnEnding | None:
        """Handle the message as it is now; return the end of the turn, if this is it."""
        if row.get("delivery") != self._delivery or not self.activity_id:
            self.note_sign(now)
        self.activity_id, self._delivery = str(row["id"]), row.get("delivery")
        if self._delivery == "dead":
            reason = row.get("trouble") or "unknown"
            return TurnEnding(END_TURN, f"Your message was not delivered to {self._name}: {reason}.", True)
        obligation = row.get("obligation") or {}
        reason = str(obligation.get("reason") or "")
        match obligation.get("state"):
            case "answered":
                return TurnEnding(END_TURN, is_closed=True)
            case "declined":
                return TurnEnding(END_TURN, f"{self._name} declined: {reason}", True)
            case "answered_outside":
                draft = str(obligation.get("draft") or "")
                return TurnEnding(END_TURN, f"{self._name} has not sent its answer. Its draft:\n\n{draft}")
            case _ if reason and not self.is_cancelled:
                return TurnEnding(END_TURN, f"{self._name} could not finish: {reason}")
            case _:
                return None

    def handle_live_end(self, now: float) -> TurnEnding | None:
        """Handle the end of the agent's turn, which need not be the end of this one."""
        outcome = self.view.outcome
        if outcome == "stopped":
            text = "" if self.is_cancelled else f"{self._name} was stopped."
            return TurnEnding(CANCELLED if self.is_cancelled else END_TURN, text)
        if outcome == "failed" and self._failed_at is None:
            self._failed_at = now
        return None

    def handle_status(self, workspace: Row, now: float) -> str:
        """Return a notice if the agent cannot pick up the message at the moment."""
        if workspace.get("limited_until"):
            words = f"has reached a limit of its vendor until {workspace['limited_until']}"
        elif workspace["status"] in _REACHABLE:
            self._offline_since = None
            return ""
        else:
            words = _STATUS_WORDS.get(workspace["status"], "is offline")
        if self._offline_since is None:
            self._offline_since = now
        return self.note_once("offline", f"{self._name} {words}. Your message waits in its inbox.")

    def next_ending(self, now: float) -> TurnEnding | None:
        """Return the end of the turn if it has waited long enough."""
        if self._cancelled_at is not None and now - self._cancelled_at >= self._times.stop:
            return TurnEnding(CANCELLED)
        if self._failed_at is not None and now - self._failed_at >= self._times.failed:
            why = f": {self.view.status_text}" if self.view.status_text else "."
            return TurnEnding(END_TURN, f"{self._name} could not finish{why}")
        is_offline = self._offline_since is not None and now - self._offline_since >= self._times.offline
        if is_offline and self.waits_for_pick_up:
            return TurnEnding(END_TURN, "The answer appears in this conversation when it comes.")
        if now - self._last_sign >= self._times.wait:
            return TurnEnding(
                END_TURN,
                f"{self._name} has not answered for {_duration_text(self._times.wait)}. "
                "The answer appears in this conversation when it comes.",
            )
        return None

    def needs_status(self, now: float) -> bool:
        """Return whether it is time to look whether the agent can pick up the message."""
        return bool(self.activity_id) and self.waits_for_pick_up and now - self._began >= self._times.pick_up

    def busy_notice(self, now: float) -> str:
        """Return a notice, once, if an agent that is online has not picked up the message for a while."""
        if not self.waits_for_pick_up or self._offline_since is not None or now - self._began < self._times.busy:
            return ""
        return self.note_once("busy", f"{self._name} has not picked up the message yet.\n")


def _duration_text(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{minutes} minutes"
