"""One agent of the company, a process of its own: `python -m molecule_core.demo.agent`.

Above: staff, which starts it. Below: mind, which decides; client, which speaks to the server.

Its first line of standard input is its Posting as JSON, so that its token stands neither among the arguments nor in the
environment. It says `seated` on standard output once it has its seat. When its input ends, whoever started it is gone,
also after a kill -9, and it ends too.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from molecule_core.client.api import Api, ApiError, NoAnswer
from molecule_core.demo.hosted import host
from molecule_core.demo.inprocess import LOG, EngineEnded, drive
from molecule_core.demo.mail import approval_of, card_of, message_of, peer_of
from molecule_core.demo.mcp import ServerEnded
from molecule_core.demo.mind import Reaction, State, begun, forbidden, react, refused, stands, tasks
from molecule_core.demo.model import (
    Ack,
    Action,
    Answer,
    Approval,
    Ask,
    Delegate,
    Message,
    PassOn,
    Peer,
    Posting,
    Report,
    Say,
    TakeBack,
    Use,
    Work,
)
from molecule_core.demo.mute import BridgeEnded, keep
from molecule_core.demo.presence import BEAT_SECONDS, Presence, SeatGone
from molecule_core.demo.prompted import prompted
from molecule_core.demo.pushed import Pushed
from molecule_core.ground.clock import Clock, SystemClock

T = TypeVar("T")
SEATED = "seated"
# Those that live in a host give back nothing when they are killed: no person should wait long for their next life.
HOSTED_LEASE_SECONDS = 5
# Longer than a team takes, since every further hand-over counts as a new attempt; what a life before has claimed is
# given back at the start of the next.
_LEASE_SECONDS = 60
_WAIT_SECONDS = 25
_AGAIN_SECONDS = 1.0
# A page of mail is worked through before the next is asked for: a long one would make its last rows wait.
_PAGE = 20
_MOST_LEFT = 500
_LONGEST_POSTING = 1 << 20
# HTTP's status that says: this was done before in other words, or a later hand-over of the message counts.
_DONE_BEFORE = 409
# The refusal of too much at once which no waiting ends.
_FULL_TREE = "delegation_limit"


class Agent:
    """Keeps one seat: takes its mail, decides, acts, and says all the while that it is there."""

    def __init__(self, posting: Posting, api: Api, clock: Clock) -> None:
        self._seat = posting.seat
        self._id = posting.workspace_id
        self._api = api
        self._clock = clock
        self._parent_id: str | None = None
        self._state = State()
        self._presence = Presence(self._id, api, clock)

    async def run(self, seated: Callable[[], None]) -> None:
        """Takes the seat and keeps it; `seated` is called in between. Ends only by raising SeatGone."""
        told = {"id": self._id, "agent_card": card_of(self._seat), "delivery_mode": "poll"}
        await self._own(lambda: self._api.post("/registry/register", told))
        self._parent_id = (await self._own(lambda: self._api.get(f"/workspaces/{self._id}")))["parent_id"]
        await self._own(self._give_back)
        seated()
        beating = asyncio.create_task(self._presence.beat())
        try:
            while True:
                for row in await self._own(self._claim):
                    await self._handle(message_of(row))
        finally:
            beating.cancel()
            await asyncio.wait((beating,))

    # -- mail ----------------------------------------------------------------------------------------------------------

    async def _give_back(self) -> None:
        """What a life before has claimed and not handled need not wait for the end of its lease."""
        rows = await self._api.get(f"/workspaces/{self._id}/activity", waiting="true", limit=_MOST_LEFT)
        claims = [{"activity_id": row["id"], "attempt": row["attempt"]} for row in rows if row.get("attempt")]
        if claims:
            await self._api.post(f"/workspaces/{self._id}/activity/release", {"claims": claims})

    async def _claim(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = await self._api.claim(
            self._id, lease=_LEASE_SECONDS, wait=_WAIT_SECONDS, limit=_PAGE, include="instructions"
        )
        return rows

    async def _handle(self, message: Message) -> None:
        peers = await self._peers() if message.wants_answer else []
        await self._perform(react(self._seat, self._state, message, peers))
        self._presence.does(None)

    async def _perform(self, reaction: Reaction) -> None:
        self._state = reaction.state
        self._presence.waits(tasks(self._state))
        for action in reaction.actions:
            await self._act(action)

    async def _peers(self) -> list[Peer]:
        rows = await self._own(lambda: self._api.get(f"/registry/{self._id}/peers"))
        return [peer_of(row, self._id, self._parent_id) for row in rows]

    async def _act(self, action: Action) -> None:
        match action:
            case Work():
                self._presence.does(action.task)
                await self._clock.wait(_never(), action.seconds)
            case Say():
                await self._done(lambda: self._say(action))
            case Answer():
                await self._done(lambda: self._answer(action))
            case Delegate():
                await self._perform(await self._delegate(action))
            case Report():
                await self._report(action)
            case Ask():
                await self._perform(await self._ask(action))
            case PassOn():
                told = {"decision": "escalate", "note": action.note, "revision": action.approval.revision}
                await self._done(lambda: self._approval(action.approval, "decide", told))
            case Use():
                exactly = {"action_hash": action.approval.action_hash}
                await self._done(lambda: self._approval(action.approval, "use", exactly))
            case TakeBack():
                await self._done(lambda: self._approval(action.approval, "withdraw", {"note": action.note}))
            case Ack():
                handled = {"id": action.message.id, "attempt": action.message.attempt}
                await self._done(lambda: self._api.ack(self._id, handled))

    async def _say(self, said: Say) -> Any:
        headers = {"idempotency-key": said.key}
        told = {"message": said.text, "in_reply_to": said.answers, "progress": said.progress}
        return await self._api.call("POST", f"/workspaces/{self._id}/notify", body=told, headers=headers)

    async def _answer(self, said: Answer) -> Any:
        """By the handle of the message; one that has none is named, and the answer is a message."""
        asked = said.message
        if asked.handle:
            return await self._api.post(f"/workspaces/{self._id}/reply", {"handle": asked.handle, "text": said.text})
        return await self._api.post(f"/workspaces/{asked.sender}/a2a", _envelope(asked, said.text))

    async def _delegate(self, given: Delegate) -> Reaction:
        """What the agent does once it is begun, or was refused."""
        task = {"target_id": given.to, "task": given.text, "in_reply_to": given.about}
        headers = {"idempotency-key": given.key}
        path = f"/workspaces/{self._id}/delegate"
        try:
            receipt = await self._insist(lambda: self._api.call("POST", path, body=task, headers=headers))
        except ApiError as error:
            return refused(self._seat, self._state, given, f"{error.problem.get('error', error)}")
        return begun(self._seat, self._state, given, receipt["delegation_id"])

    async def _ask(self, asked: Ask) -> Reaction:
        """What the agent does once it knows how its approval stands, or that it cannot ask for one."""
        wish = {"action": asked.action, "reason": asked.reason, "details": {"task": asked.task}}
        headers = {"idempotency-key": asked.key}
        path = f"/workspaces/{self._id}/approvals"
        try:
            item = await self._insist(lambda: self._api.call("POST", path, body=wish, headers=headers))
        except ApiError as error:
            return forbidden(self._state, asked, f"{error.problem.get('error', error)}")
        approval = approval_of(item)
        if approval is None:
            return forbidden(self._state, asked, "the server's answer is not understood")
        return stands(self._seat, self._state, asked, approval)

    async def _approval(self, approval: Approval, verb: str, told: dict[str, Any]) -> Any:
        return await self._api.post(f"/workspaces/{self._id}/approvals/{approval.id}/{verb}", told)

    async def _report(self, report: Report) -> None:
        """Said once: the next report makes up for one that is lost."""
        told = {"current_step": report.step, "percent": report.percent}
        with suppress(NoAnswer, ApiError):
            await self._api.post(f"/delegations/{report.delegation_id}/status", told)

    # -- the server may be away, busy, or refuse -----------------------------------------------------------------------

    async def _own(self, call: Callable[[], Awaitable[T]]) -> T:
        """What the server answers about one's own seat. Raises SeatGone if it refuses."""
        try:
            return await self._insist(call)
        except ApiError as error:
            raise SeatGone(str(error)) from error

    async def _done(self, call: Callable[[], Awaitable[Any]]) -> None:
        """Does something that may turn out to be done before, or impossible: a peer may have been removed."""
        try:
            await self._insist(call)
        except ApiError as error:
            if error.status != _DONE_BEFORE:
                sys.stderr.write(f"{self._seat.name}: {error}\n")

    async def _insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Asks until the server is there and has time. Raises ApiError for what it will refuse again."""
        while True:
            try:
                return await call()
            except NoAnswer:
                pass
            except ApiError as error:
                if not error.passes or error.code == _FULL_TREE:
                    raise
            await self._clock.wait(_never(), _AGAIN_SECONDS)


def _envelope(asked: Message, text: str) -> dict[str, Any]:
    key = f"answer-{asked.id}"
    message = {
        "role": "agent",
        "messageId": key,
        "parts": [{"kind": "text", "text": text}],
        "metadata": {"intent": "inform", "in_reply_to": asked.id},
    }
    return {"jsonrpc": "2.0", "id": key, "method": "message/send", "params": {"message": message}}


def _never() -> "asyncio.Future[None]":
    return asyncio.get_running_loop().create_future()


# -- the process -------------------------------------------------------------------------------------------------------


async def _standard_input() -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=_LONGEST_POSTING)
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    return reader


def _say_seated() -> None:
    os.write(sys.stdout.fileno(), f"{SEATED}\n".encode())


async def _live(posting: Posting, lifeline: asyncio.StreamReader) -> None:
    """Keeps the seat until the input ends. Raises SeatGone."""
    keeping = asyncio.create_task(_keep(posting))
    ending = asyncio.create_task(lifeline.read())
    await asyncio.wait((keeping, ending), return_when=asyncio.FIRST_COMPLETED)
    if keeping.done():
        keeping.result()
    keeping.cancel()
    await asyncio.wait((keeping,))


async def _keep(posting: Posting) -> None:
    """Keeps the seat in the way of its agent. Raises SeatGone."""
    clock = SystemClock()
    if posting.seat.host == "mcp":
        try:
            await host(posting, clock, _say_seated, lease=HOSTED_LEASE_SECONDS, beat=BEAT_SECONDS)
        except ServerEnded:
            raise SeatGone("`molecule mcp` has ended; what it says stands above") from None
    if posting.seat.host == "stdout":
        try:
            await keep(posting, clock, _say_seated, lease=HOSTED_LEASE_SECONDS, beat=BEAT_SECONDS)
        except BridgeEnded:
            raise SeatGone("`molecule bridge` has ended; what it says stands above") from None
    if posting.seat.host == "agent":
        try:
            await drive(posting, clock, _say_seated, lease=HOSTED_LEASE_SECONDS, beat=BEAT_SECONDS)
        except EngineEnded:
            log = Path(posting.folder) / LOG
            raise SeatGone(f"`molecule agent run` has ended; what it says stands in {log}") from None
    async with Api(posting.url, posting.token) as api:
        agent = Pushed(posting, api, clock) if posting.seat.host == "push" else Agent(posting, api, clock)
        async with prompted(posting):
            await agent.run(_say_seated)


async def main() -> str | None:
    """One life of one agent. Returns why it ended, if that was not asked for."""
    lifeline = await _standard_input()
    told = await lifeline.readline()
    if not told:
        return None  # whoever started it was gone before it could say anything
    posting = msgspec.json.decode(told, type=Posting)
    try:
        await _live(posting, lifeline)
    except SeatGone as error:
        return f"{posting.seat.name} has lost its seat: {error}"
    return None


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
