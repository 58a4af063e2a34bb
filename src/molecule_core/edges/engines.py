"""Threads over REST, for engines: who claims one, begins its turns, adds to its log and ends them."""

import msgspec

from molecule_core.access.model import Role
from molecule_core.edges.query import WAIT, asks, number, plain_text, text, whole_number
from molecule_core.edges.routes import EVERYBODY, WORKSPACE, Answer, Call, Reach, Route, Who, json_answer
from molecule_core.edges.threads import Found, key_of
from molecule_core.ground.errors import InvalidField
from molecule_core.ground.limits import Limits
from molecule_core.ground.text import clean_line
from molecule_core.org.reader import OrgReader
from molecule_core.threads.reader import ThreadReader
from molecule_core.threads.turning import EngineWriter
from molecule_core.wire.threadlog import Usage
from molecule_core.wire.threads import (
    Append,
    Appended,
    Begin,
    Claim,
    ClaimWish,
    EndTurn,
    Release,
    Sight,
    ThreadItem,
    Work,
)


class EngineEdge:
    """The routes of threads for engines."""

    def __init__(self, writer: EngineWriter, reader: ThreadReader, org: OrgReader, *, limits: Limits) -> None:
        self._writer = writer
        self._reader = reader
        self._found = Found(reader, org)
        self._limits = limits

    def routes(self) -> list[Route]:
        """The rows for the table."""
        one, turn = "/threads/{thread_id}", "/threads/{thread_id}/turns/{turn_id}"
        agent, own = Who(EVERYBODY, role=Role.OPERATOR), Who(frozenset((WORKSPACE,)), Reach.OWN)
        waits = asks(
            WAIT,
            text("owner", "Also those that this engine holds."),
            number("own_too", "1: also those where it had begun a turn before it died."),
        )
        return [
            Route(
                "GET",
                "/workspaces/{id}/threads/work",
                self.work,
                own,
                "What engines may claim",
                None,
                Work,
                query=waits,
            ),
            Route("POST", f"{one}/claim", self.claim, agent, "Claim a thread", ClaimWish, Claim),
            Route("POST", f"{one}/release", self.release, agent, "Let a thread go", Release, ThreadItem),
            Route("POST", f"{one}/entries", self.append, agent, "Add to the log", Append, Appended),
            Route("POST", f"{turn}/begin", self.begin, agent, "Begin a turn", Begin, Sight),
            Route("POST", f"{turn}/end", self.end, agent, "End a turn", EndTurn, ThreadItem),
        ]

    async def work(self, call: Call) -> Answer:
        """Threads with a turn to begin, or whose engine was not heard of any more. `wait` (seconds) waits for one;
        `owner`: also those that this engine holds; `own_too=1`: also those where it had begun a turn before it died."""
        query = call.query()
        wait = whole_number(query, "wait", least=0, most=self._limits.wait_seconds) or 0
        own_too = bool(whole_number(query, "own_too", least=0))
        owner = plain_text(query, "owner")
        await self._writer.asks(call.target)
        return json_answer(await self._reader.work(call.target.id, owner, wait, own_too=own_too))

    async def claim(self, call: Call) -> Answer:
        """The thread is the engine's, and no older claim writes any more."""
        wish, thread = call.read(ClaimWish), await self._found.driven(call)
        owner = clean_line(wish.owner, self._limits.name_length, "owner")
        if not owner:
            raise InvalidField(reason="owner is empty; name the engine")
        return json_answer(await self._writer.claim(thread, owner))

    async def release(self, call: Call) -> Answer:
        """Another engine may have it at once."""
        wish, thread = call.read(Release), await self._found.driven(call)
        await self._writer.release(thread, wish.generation)
        return json_answer(await self._reader.item(await self._reader.one(thread.thread_id)))

    async def begin(self, call: Call) -> Answer:
        """The turn begins, or goes on; the answer is what the model is to see."""
        wish, thread = call.read(Begin), await self._found.driven(call)
        stop = await self._writer.begin(thread, call.params["turn_id"].replace("\x00", ""), wish.generation)
        return json_answer(await self._reader.sight(await self._reader.one(thread.thread_id), stop=stop))

    async def append(self, call: Call) -> Answer:
        """Lines are added to the log, before the model sees them. Without any, it renews the claim and asks for
        news."""
        said, thread = call.read(Append), await self._found.driven(call)
        key_of(call, said.key, self._limits)
        if len(said.entries) > self._limits.thread_entries:
            raise InvalidField(reason=f"at most {self._limits.thread_entries} entries are taken at once")
        for each in said.entries:
            if len(msgspec.json.encode(each)) > self._limits.thread_entry_bytes:
                raise InvalidField(reason=f"an entry has more than {self._limits.thread_entry_bytes} bytes; cut it")
            if isinstance(each, Usage) and len(each.record_key) > self._limits.id_length:
                raise InvalidField(reason=f"record_key must be at most {self._limits.id_length} characters")
        return json_answer(await self._writer.append(thread, said))

    async def end(self, call: Call) -> Answer:
        """The turn is over; who asked for it hears of it."""
        said, thread = call.read(EndTurn), await self._found.driven(call)
        ended = await self._writer.end(thread, call.params["turn_id"].replace("\x00", ""), said)
        return json_answer(await self._reader.item(ended))
