"""The bridge of `molecule bridge command`: takes the mail of one seat, has a program work on each message, and tells
the server how that ended: the final text as the draft of the answer, a failure as an error in the agent's own log.

Whether a draft is due is the server's to say: a program that has answered by a tool has closed the matter.

Above: main. Below: turns, outbox, letters, the membership that reads the mail.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from molecule_core.agent.backoff import BackOff
from molecule_core.agent.bridges.letters import facts_of, letter
from molecule_core.agent.bridges.outbox import Outbox, Outcome
from molecule_core.agent.bridges.settings import BridgeWishes
from molecule_core.agent.bridges.turns import Ended
from molecule_core.agent.cursors import Fenced
from molecule_core.agent.drafts import Drafts, waits
from molecule_core.agent.inbox import Entry, Inbox, Key
from molecule_core.agent.membership import Membership
from molecule_core.agent.refusals import is_about_caller, is_about_seat
from molecule_core.agent.waiting import pause
from molecule_core.client.api import ApiError, NoAnswer, member, shaped
from molecule_core.ground.clock import Clock
from molecule_core.ground.ids import Randomness

_log = logging.getLogger("molecule.bridge")
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 30.0
# A page of whoever stands before the server has no code of ours.
_FORBIDDEN = 403
_TROUBLE = 500
_LOOK_SECONDS = 0.2
_ENDS = {"failed": "failed", "interrupted": "was interrupted"}
# Rows of the own log that are looked through for a report that may have arrived.
_LOOKED_AT = 100


class Runs(Protocol):
    """Has a program work on messages."""

    async def run(self, slot: str, told: bytes, facts: Mapping[str, str]) -> Ended:
        """One turn; `slot`: one of those that run side by side. Raises OSError."""

    async def close(self) -> None:
        """Nothing of the program goes on."""


class Bridge:
    """One seat and one command."""

    def __init__(
        self,
        seat: Membership,
        inbox: Inbox,
        outbox: Outbox,
        runner: Runs,
        *,
        clock: Clock,
        randomness: Randomness,
        wishes: BridgeWishes,
        preamble: bool = False,
    ) -> None:
        self._seat = seat
        self._inbox = inbox
        self._outbox = outbox
        self._runner = runner
        self._clock = clock
        self._randomness = randomness
        self._wishes = wishes
        self._preamble = preamble
        self._drafts = Drafts(seat)
        self._busy: set[Key] = set()
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Works until it is cancelled; what then runs is ended, and told as far as that is possible soon.

        Raises DamagedOutbox, OSError."""
        while self._seat.state != "leading":  # only who leads reads mail, and writes the outbox
            await pause(self._clock, _LOOK_SECONDS)
        self._outbox.load()
        works = [self._work(f"{self._seat.id}_{number}") for number in range(self._wishes.parallel)]
        tasks = [asyncio.ensure_future(each) for each in (*works, self._post())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- turns ---------------------------------------------------------------------------------------------------------

    async def _work(self, slot: str) -> None:
        while True:
            entry = await self._next()
            self._busy.add(entry.key)
            try:
                await self._turn(slot, entry)
            finally:
                self._busy.discard(entry.key)

    async def _next(self) -> Entry:
        """The oldest message that nobody works on, and that no turn has ended for."""
        while True:
            if len(self._outbox.outcomes) < self._wishes.outbox_messages:
                for entry in self._inbox.entries():
                    if entry.key not in self._busy and not self._outbox.is_done(entry.message.activity_id):
                        return entry
            await self._clock.wait(self._inbox.change(), 1.0)

    async def _turn(self, slot: str, entry: Entry) -> None:
        message = entry.message
        entry.shown = True  # the heartbeat says that it is being worked on
        run = self._outbox.begin(message.activity_id)
        if run > self._wishes.runs:
            self._ended(entry, run, Ended(reason=f"{self._wishes.runs} turns were begun and none came to its end"), 0)
            return
        began = self._clock.monotonic()
        told, facts = letter(message, preamble=self._preamble), facts_of(message, run)
        try:
            ended = await self._runner.run(slot, told, facts)
        except asyncio.CancelledError:
            self._outbox.put(
                Outcome(activity_id=message.activity_id, kind="interrupted", run=run, text="the bridge was stopped")
            )
            raise
        self._ended(entry, run, ended, self._clock.monotonic() - began)

    def _ended(self, entry: Entry, run: int, ended: Ended, seconds: float) -> None:
        message = entry.message
        self._outbox.put(
            Outcome(
                activity_id=message.activity_id,
                kind="failed" if ended.reason else "said",
                run=run,
                text=ended.reason or ended.text,
                attempt=message.attempt,
                request=message.intent == "request",
                seconds=seconds,
            )
        )
        self._news.set()

    # -- what the server is told ---------------------------------------------------------------------------------------

    async def _post(self) -> None:
        """Tells the server what is in the outbox until each is known there. One that is refused for now, as in a chain
        that waits for a person, holds up only what else there is of its message."""
        back_off = BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness)
        while True:
            self._news.clear()
            outcomes = self._outbox.outcomes
            if not outcomes:
                await self._news.wait()
                continue
            if await self._all_told(outcomes):
                back_off.reset()
            else:
                await self._clock.wait(self._news.wait(), back_off.next())

    async def _all_told(self, outcomes: Sequence[Outcome]) -> bool:
        """Tells each once."""
        left: set[str] = set()
        for outcome in outcomes:
            if outcome.activity_id in left:
                continue
            try:
                await self.tell(outcome)
            except (NoAnswer, ApiError) as error:
                _log.warning("what became of message %s cannot be told yet: %s", outcome.activity_id, error)
                left.add(outcome.activity_id)
                if isinstance(error, NoAnswer) or error.status >= _TROUBLE:
                    break  # the others would fare no better
        return not left

    async def flush(self) -> None:
        """Tells what is left, once."""
        await self._all_told(self._outbox.outcomes)

    async def tell(self, outcome: Outcome) -> None:
        """One outcome; an answer that the server does not take is told as a failure. Raises ApiError and NoAnswer where
        it is to be told again."""
        token = self._seat.requests.token
        try:
            if outcome.kind != "said":
                await self._report(outcome)
            elif outcome.text:
                await self._draft(outcome)
        except ApiError as error:
            if await self._is_for_now(error, token):
                raise
            _log.warning("the server does not take what became of message %s: %s", outcome.activity_id, error)
            if outcome.kind == "said":
                self._outbox.put(replace(outcome, kind="failed", text=f"its answer was not taken ({error})"))
        if outcome.kind != "interrupted":
            await self._settle(outcome)
        self._outbox.told(outcome)

    async def _is_for_now(self, error: ApiError, token: str) -> bool:
        """Whether the same may be taken another time: what passes by itself, what waits for leave, and a token that is
        being replaced (or was, since the call was made with `token`)."""
        seat = self._seat
        unknown = error.status == _FORBIDDEN and not error.code
        if error.passes or unknown or waits(error) or is_about_caller(error) or token != seat.requests.token:
            return True
        return await is_about_seat(error, seat.api(), seat.id)

    async def _draft(self, outcome: Outcome) -> None:
        """The final text. One that was posted twice is kept once, and sent once."""
        if not outcome.request:
            _log.info("message %s wants no answer; what the program said is left out", outcome.activity_id)
            return
        state = await self._drafts.post(outcome.activity_id, outcome.text)
        _log.info("message %s: %s", outcome.activity_id, state)

    async def _report(self, outcome: Outcome) -> None:
        """A failure, in the agent's own log; one that may be there already is looked for first."""
        about = {"activity_id": outcome.activity_id, "run": outcome.run, "kind": outcome.kind}
        path = f"/workspaces/{self._seat.id}/activity"
        if outcome.tried:
            rows = shaped(await self._seat.api().get(path, type="error", limit=_LOOKED_AT), list)
            if any(isinstance(row, dict) and row.get("request_body") == about for row in rows):
                return
        self._outbox.trying(outcome)
        entry = {
            "activity_type": "error",
            "method": "bridge",
            "status": "error",
            "summary": f"A turn {_ENDS[outcome.kind]}: {outcome.text}",
            "error_detail": outcome.text,
            "duration_ms": int(outcome.seconds * 1000),
            "request_body": about,
        }
        member(await self._seat.api().post(path, entry), "status", str)
        _log.warning("message %s, turn %s: %s", outcome.activity_id, outcome.run, outcome.text)

    async def _settle(self, outcome: Outcome) -> None:
        """The message is handled; the membership tells the server, later if not now."""
        held = [each.message.attempt for each in self._inbox.find(outcome.activity_id, self._seat.id)]
        try:
            await self._seat.handle(outcome.activity_id, max([outcome.attempt, *held]))
        except Fenced:
            _log.warning("message %s may come once more: another process leads now", outcome.activity_id)
