"""Agents that work together, over REST: what the thread of the path does to others, in its name."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from molecule_core.access.model import Role
from molecule_core.edges.query import asks, plain_text, text
from molecule_core.edges.rates import SENDING
from molecule_core.edges.routes import EVERYBODY, Answer, Call, Route, Who, json_answer
from molecule_core.edges.threads import Found
from molecule_core.ground.errors import InvalidField
from molecule_core.ground.limits import Limits
from molecule_core.ground.text import clean_line, is_client_id
from molecule_core.org.reader import OrgReader
from molecule_core.threads import rules
from molecule_core.threads.model import ROOT, Thread
from molecule_core.threads.reader import ThreadReader
from molecule_core.threads.spawning import AgentWriter
from molecule_core.threads.waiting import Waits
from molecule_core.wire.threadlog import Collab
from molecule_core.wire.threads import AgentAnswer, AgentCall, Agents

# A letter waits for a turn, also where its receiver has none to come.
_LEAVES = "send"
Act = Callable[[Thread, AgentCall], Awaitable[Collab]]


class AgentEdge:
    """The routes of collaboration."""

    def __init__(
        self, writer: AgentWriter, waits: Waits, reader: ThreadReader, org: OrgReader, *, limits: Limits
    ) -> None:
        self._writer = writer
        self._waits = waits
        self._reader = reader
        self._found = Found(reader, org)
        self._limits = limits

    def routes(self) -> list[Route]:
        """The rows for the table."""
        every = "/threads/{thread_id}/agents"
        drive, see, made = Who(EVERYBODY, role=Role.OPERATOR), Who(EVERYBODY), self._writer
        acts = (
            ("spawn", "Spawn an agent", made.spawn, 201),
            ("send", "Leave an agent a letter", made.send, 200),
            ("followup", "Give an agent more to do", made.followup, 200),
            ("interrupt", "Stop an agent's turn", made.interrupt, 200),
            ("close", "Close an agent", made.close, 200),
            ("resume", "Take an agent up again", made.resume, 200),
        )
        found = asks(text("prefix", "Only those whose path begins so: relative to the thread, or absolute."))
        return [
            Route("GET", every, self.agents, see, "The agents of a tree", None, Agents, query=found),
            Route("POST", f"{every}/wait", self.wait, drive, "Wait for agents", AgentCall, AgentAnswer, holds=True),
            *(self._route(f"{every}/{verb}", about, act, status) for verb, about, act, status in acts),
        ]

    def _route(self, path: str, about: str, act: Act, status: int) -> Route:
        """A route of one verb. The same call_id again gives the same answer, and does nothing."""

        async def handle(call: Call) -> Answer:
            asked, thread = self._asked(call), await self._found.driven(call)
            return json_answer(await self._told(AgentAnswer(call=await act(thread, asked))), status)

        handle.__doc__ = f"{about}, in the name of the thread. The same call_id again gets the same end."
        drive = Who(EVERYBODY, role=Role.OPERATOR)
        return Route("POST", path, handle, drive, about, AgentCall, AgentAnswer, status, counts=SENDING)

    async def wait(self, call: Call) -> Answer:
        """Held until it is over, or as long as a request is held: then `call.status` is inProgress, and the same call
        is to be made again."""
        asked, thread = self._asked(call), await self._found.driven(call)
        return json_answer(await self._told(await self._waits.wait(thread, asked)))

    async def _told(self, answer: AgentAnswer) -> AgentAnswer:
        """The same with those whom nobody runs: they are reached, and nothing would come of it."""
        rows = await self._reader.all_of(answer.call.receiver_thread_ids)
        quiet = await self._undriven([each for each in rows if each.open or answer.call.tool == _LEAVES])
        return replace(answer, **quiet)

    async def _undriven(self, threads: Sequence[Thread]) -> dict[str, list[str]]:
        found = await self._reader.undriven([each for each in threads if not each.closed])
        quiet = list(dict.fromkeys(each.workspace_id for each in found))
        return {"undriven": [each.path for each in found], "quiet": quiet}

    async def agents(self, call: Call) -> Answer:
        """The agents of the tree whose paths begin with `prefix`: relative to the thread, or absolute. What those said
        that the caller may not read and that are below none of its own is left out."""
        thread, prefix = await self._found.seen(call), plain_text(call.query(), "prefix")
        path = ROOT if prefix is None else rules.path_meant(thread.path, prefix)
        tree = await self._reader.tree(thread.root_id)
        found = [each for each in tree if path and (each.path == path or rules.is_below(each.path, path))]
        quiet = await self._undriven([each for each in found if each.open])
        known = rules.read_by(await self._found.only(call, thread), tree)
        return json_answer(Agents(rules.told([rules.state_of(each) for each in found], known), **quiet))

    def _asked(self, call: Call) -> AgentCall:
        asked, limits = call.read(AgentCall), self._limits
        if not is_client_id(asked.call_id, limits.id_length):
            raise InvalidField(reason=f"call_id must be at most {limits.id_length} characters of A-Z a-z 0-9 . _ : -")
        for name in ("nickname", "role", "model", "effort"):
            clean_line(getattr(asked, name) or "", limits.name_length, name)
        return asked
