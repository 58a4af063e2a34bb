"""Graphs of agents that always delegate on, on a whole server in this process: what `prove loops` starts.

Each graph is an organisation of its own; its edges say who gives work to whom, and about three in ten lead back. Time
stands still until all is quiet: what ends, ends by the guards, and by no clock.
"""

import asyncio
from collections import Counter
from random import Random
from typing import Any

from msgspec import Struct

from molecule_core.store.journal import org_key
from molecule_core.store.wakeups import Poll
from proofs.harness.children import as_a_child
from proofs.harness.office import ADMIN_TOKEN, LIMITS, Office
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Figure, Verdict
from proofs.loops.trees import judge, read_forest
from testing.clocks import FakeClock

# So many graphs share the store's groups.
_SIDE_BY_SIDE = 25
_BACK = 0.3
# Special graphs, by their number: those with many edges, of which the few graphs of a control need some; those in which
# one agent gives many pieces at once; those in which whoever gets a result gives work again; and those in which results
# go up to the first one, who then begins anew.
_EVERY = 100
_DENSE, _WIDE, _RESTLESS = (5, 9, 17), 11, 30
_TIRELESS, _TIRELESS_EVERY = 150, 250
_PIECES = 40
# Nobody needs more to run into every limit that stops it. A broken product would go on for ever.
_MOST_BEGUN = 3_000
_MOST_NOTES = 5
_LEASE_SECONDS = 3_600
_PAGE = 100
_STALL_SECONDS = 120.0
_LIMIT_CODES = ("delegation_limit", "delegation_cycle")
_QUIET_ENDS = ("answered", "cancelled", "left")


class Agent(Struct):
    """A seat and whom it gives work to. `tasks`: what it was given, in the order in which it came."""

    id: str
    token: str
    edges: list[int] = []
    tasks: list[dict[str, Any]] = []


class Graph:
    """One graph: its agents, and what they were told."""

    def __init__(self, number: int, dice: Random) -> None:
        self.number = number
        self.dice = dice
        self.org_id = ""
        self.agents: list[Agent] = []
        self.refused: Counter[str] = Counter()
        self.begun = 0
        self.words = 0
        self.roots: list[str] = []
        kind = number % _EVERY
        self.is_dense, self.is_wide, self.is_restless = kind in _DENSE, kind == _WIDE, kind == _RESTLESS
        self.is_tireless = number % _TIRELESS_EVERY == _TIRELESS
        self.end = _QUIET_ENDS[number % len(_QUIET_ENDS)]

    @property
    def goes_on(self) -> bool:
        """Whether what was answered leads to more work."""
        return self.is_restless or self.is_tireless

    def drawn(self) -> list[list[int]]:
        """Whom each agent gives work to."""
        count = self.dice.randint(3, 7)
        forward = [[self.dice.randrange(n + 1, count)] if n + 1 < count else [] for n in range(count)]
        for _ in range(2 * count if self.is_dense or self.is_restless else self.dice.randint(0, count // 4)):
            one, other = sorted(self.dice.sample(range(count), 2))
            forward[one].append(other)
        for _ in range(max(1, round(sum(map(len, forward)) * _BACK / (1 - _BACK)))):
            one, other = sorted(self.dice.sample(range(count), 2))
            forward[other].append(one)
        if self.is_wide or self.is_dense or self.goes_on:
            forward[0] = [1]  # one tree
        return [sorted(set(each)) for each in forward]

    def task(self, old: str | None) -> str:
        """The same words as before, or other ones."""
        if old is not None and self.dice.random() < 0.5:
            return f"  {old} " if self.dice.random() < 0.1 else old
        self.words += 1
        return f"task {self.words} of {self.number}"


class Crowd:
    """One run over all graphs."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._clock = FakeClock()
        self._office = Office(setting, self._clock)
        self.graphs = [Graph(number, setting.dice("graph", number)) for number in range(setting.size)]
        self.counts: Counter[str] = Counter()
        self.notes: list[str] = []

    async def run(self) -> Verdict:
        """All graphs come to rest; then what is still open comes to its deadline, behind a restart."""
        server = self._office.server
        await server.open()
        for first in range(0, len(self.graphs), _SIDE_BY_SIDE):
            await asyncio.gather(*(self._play(graph) for graph in self.graphs[first : first + _SIDE_BY_SIDE]))
        await server.close()
        refused = {graph.org_id: graph.refused for graph in self.graphs}
        at_rest = await read_forest(self._setting)
        figures, zeros = judge(at_rest, refused, LIMITS)
        opened = sum(each.open for each in at_rest.given)
        ended = [each for each in self.graphs if each.end != "left" and not each.goes_on]
        still = Counter(each.org_id for each in at_rest.given if each.open)
        if not zeros["open without a timer in time"]:  # else some would never end
            await self._reach_deadlines()
        in_the_end = await read_forest(self._setting)
        more = {
            "graphs not ended": self.counts["not ended"],
            "refused without reason": self.counts["strange"],
            "open though all of it was answered or taken back": sum(still[graph.org_id] for graph in ended),
            "open behind the deadline": sum(each.open for each in in_the_end.given),
            "ended twice": judge(in_the_end, refused, LIMITS)[1]["not exactly one end"],
        }
        done: dict[str, Figure] = {"graphs": len(self.graphs), **figures, "hits": self.counts["hits"]}
        return Verdict({**done, "left to their deadline": opened}, {**more, **zeros}, self.notes)

    async def _reach_deadlines(self) -> None:
        """The same store under a new server, when all deadlines have passed."""
        office = self._office = Office(self._setting, self._clock)
        await office.server.open()
        await self._clock.advance(LIMITS.delegation_seconds + 1)
        await self._none_open(self.graphs)
        await office.server.close()

    async def _none_open(self, graphs: list[Graph]) -> None:
        """Waits until nothing of these graphs is open, or for so long that it never will be."""
        server = self._office.server

        async def ended(org_id: str) -> None:
            async def look() -> Poll[bool]:
                return Poll(True if not (await server.delegations.reader.count_open_and_stuck(org_id))[0] else None)

            await server.wakeups.wait_until(org_key(org_id), look, LIMITS.delegation_seconds)

        try:
            async with asyncio.timeout(_STALL_SECONDS):
                await asyncio.gather(*(ended(graph.org_id) for graph in graphs))
        except TimeoutError:
            self._fault("stalled", f"{len(graphs)} graphs")

    # -- one graph -----------------------------------------------------------------------------------------------------

    async def _play(self, graph: Graph) -> None:
        await self._found(graph)
        first = graph.agents[0]
        for other in first.edges:
            await self._give(graph, first, other, graph.task(None), None)
        while found := await asyncio.gather(*(self._claim(agent) for agent in graph.agents)):
            if not any(found):
                break
            if graph.begun > _MOST_BEGUN:
                self._fault("not ended", f"graph {graph.number}: {graph.begun} delegations")
                return
            await asyncio.gather(
                *(self._handle(graph, agent, rows) for agent, rows in zip(graph.agents, found, strict=True))
            )
        if graph.goes_on or graph.end == "left":
            return
        await (self._answer_all(graph) if graph.end == "answered" else self._take_back(graph))

    async def _found(self, graph: Graph) -> None:
        tell = self._office.tell
        graph.org_id = (await tell(ADMIN_TOKEN, "POST", "/orgs", {"name": f"Graph {graph.number}"}))["id"]
        edges = graph.drawn()
        made = [
            await tell(ADMIN_TOKEN, "POST", "/workspaces", {"name": f"Agent {n}", "org_id": graph.org_id})
            for n in range(len(edges))
        ]
        graph.agents = [
            Agent(seat["id"], seat["connection"]["auth_token"], to) for seat, to in zip(made, edges, strict=True)
        ]

    async def _claim(self, agent: Agent) -> list[dict[str, Any]]:
        path = f"/workspaces/{agent.id}/activity"
        rows: list[dict[str, Any]] = await self._office.tell(
            agent.token, "GET", path, claim=_LEASE_SECONDS, wait=0, limit=_PAGE
        )
        return rows

    async def _handle(self, graph: Graph, agent: Agent, rows: list[dict[str, Any]]) -> None:
        """An agent gives all that it gets to everybody that it knows."""
        for row in rows:
            if row["method"] == "delegate_result":
                await self._hear(graph, agent, row)
                continue
            agent.tasks.append(row)
            given = await self._give_on(graph, agent, row, text_of(row))
            if graph.goes_on and not given:
                await self._answer(agent, agent.tasks.pop())

    async def _hear(self, graph: Graph, agent: Agent, row: dict[str, Any]) -> None:
        """A result has come."""
        is_first = agent is graph.agents[0]
        if graph.is_tireless and not is_first:
            tasks, agent.tasks = agent.tasks, []
            for each in tasks:
                await self._answer(agent, each)
        elif is_first if graph.is_tireless else graph.is_restless:
            await self._give_on(graph, agent, row, None)

    async def _give_on(self, graph: Graph, agent: Agent, row: dict[str, Any], old: str | None) -> int:
        """It says what it is at work on, or only holds it, or says first that it is done with it."""
        way = graph.dice.choice(("named", "held", "handled"))
        if way == "handled":
            handled = {"activity_id": row["id"], "attempt": row["attempt"]}
            await self._office.ask(agent.token, "POST", f"/workspaces/{agent.id}/activity/ack", handled)
        named = row["id"] if way == "named" or graph.goes_on else None
        many, given = graph.is_wide and agent is graph.agents[1] and len(agent.tasks) == 1, 0
        for other in agent.edges:
            for _ in range(_PIECES if many else 1):
                given += await self._give(graph, agent, other, graph.task(None if many else old), named)
        return given

    async def _give(self, graph: Graph, agent: Agent, other: int, task: str, named: str | None) -> int:
        body = {"target_id": graph.agents[other].id, "task": task}
        if named is not None:
            body["in_reply_to"] = named
        status, answer = await self._office.ask(agent.token, "POST", f"/workspaces/{agent.id}/delegate", body)
        if status == 202:
            hit = bool(answer.get("idempotent_hit"))
            self.counts["hits"] += hit
            graph.begun += not hit
            if agent is graph.agents[0] and not hit:
                graph.roots.append(answer["delegation_id"])
            return not hit
        code = answer.get("code", "")
        if code in _LIMIT_CODES:
            graph.refused[answer["limit"]] += 1
        elif code == "chain_frozen":
            graph.refused["chain"] += 1
        else:
            self._fault("strange", f"{status} {answer}")
        return 0

    # -- how graphs end ------------------------------------------------------------------------------------------------

    async def _answer_all(self, graph: Graph) -> None:
        """Everybody answers all that it was given, the last first."""
        for agent in reversed(graph.agents):
            await asyncio.gather(*(self._answer(agent, row) for row in reversed(agent.tasks)))

    async def _answer(self, agent: Agent, row: dict[str, Any]) -> None:
        message = {
            "role": "agent",
            "parts": [{"kind": "text", "text": f"done: {row['id']}"}],
            "metadata": {"delegation_id": row["id"]},
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
        await self._office.tell(agent.token, "POST", f"/workspaces/{row['source_id']}/a2a", body)

    async def _take_back(self, graph: Graph) -> None:
        """Who began it all takes it back, and all below it ends by that."""
        first = graph.agents[0]
        for each in graph.roots:
            await self._office.tell(first.token, "POST", f"/workspaces/{first.id}/delegations/{each}/cancel", {})
        await self._none_open([graph])

    def _fault(self, what: str, note: str) -> None:
        self.counts[what] += 1
        if len(self.notes) < _MOST_NOTES:
            self.notes.append(f"{what}: {note[:300]}")


def text_of(row: dict[str, Any]) -> str:
    """The words of a task."""
    text: str = row["request_body"]["params"]["message"]["parts"][0]["text"]
    return text


async def run(setting: Setting) -> Verdict:
    """One run over `setting.size` graphs."""
    return await Crowd(setting).run()


if __name__ == "__main__":
    as_a_child(run)
