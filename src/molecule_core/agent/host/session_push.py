"""Sends incoming messages to a session of a host that a person has started, as prompts with their instructions.

For hosts that other programs may prompt: Codex, opencode. The host confirms a prompt, so a message is sent once. A busy
session gets it when it is idle; without a session it stays in the inbox, where the tools find it.
"""

import logging
from typing import Protocol

from molecule_core.agent import message_format
from molecule_core.agent.async_utils import sleep
from molecule_core.agent.backoff import BackOff
from molecule_core.agent.mailbox.inbox import InboxEntry, MergedInbox
from molecule_core.agent.mailbox.memberships import Memberships
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.common.clock import Clock
from molecule_core.common.ids import Randomness
from molecule_core.wire.schemas.runtimes import Runtime

_log = logging.getLogger("molecule.agent")
_FIRST_WAIT, _LONGEST_WAIT = 0.25, 5.0


class HostSession(Protocol):
    """The session of the host that this process belongs to."""

    async def send_prompt(self, activity_id: str, text: str) -> bool:
        """Send a prompt; return False if there is no idle session now. Raises OSError."""


class SessionPush:
    """Push into one session."""

    def __init__(
        self,
        session: HostSession,
        runtime: Runtime,
        inbox: MergedInbox,
        memberships: Memberships,
        *,
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self._session = session
        self._runtime = runtime
        self._inbox = inbox
        self._memberships = memberships
        self._clock = clock
        self._randomness = randomness
        self._last_problem = ""

    async def run(self) -> None:
        """Push until cancelled."""
        back_off = BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness)
        while True:
            for each in self._memberships:
                each.apply_notes()
            entry = next((each for each in self._inbox.entries() if not (each.is_shown or each.is_announced)), None)
            if entry is None:
                back_off = BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness)
                await self._inbox.wait_for_change()
            elif not await self._try_send(entry):
                await sleep(self._clock, back_off.next_delay())

    async def _try_send(self, entry: InboxEntry) -> bool:
        text = message_format.prompt_text(entry.message, single=self._memberships.is_single, runtime=self._runtime)
        try:
            is_sent = await self._session.send_prompt(entry.message.activity_id, text)
        except (OSError, ValueError) as error:
            self._log_problem(entry.message.activity_id, sanitize_line(str(error), 300))
            return False
        self._last_problem = ""
        if is_sent:
            self._inbox.mark_shown(entry)
        return is_sent

    def _log_problem(self, activity_id: str, problem: str) -> None:
        """Warn once of each problem: the push is tried again and again."""
        level = logging.DEBUG if problem == self._last_problem else logging.WARNING
        self._last_problem = problem
        _log.log(level, "message %s waits for a session: %s", activity_id, problem)
