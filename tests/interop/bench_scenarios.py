"""Scenarios of DelegationBench, run against a server: agents are workspaces, a grant is a scope.

The rules of a scenario play the models of its agents; what these want is asked of the server over HTTP with their own
tokens. Its mock tools run only after the server was asked whether the agent may use them. The trace that the benchmark
judges is made of what the server has recorded: who delegated what to whom, within which scope, until when, and for
which task a call counts.
"""

from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from delegationbench.agents import Agent, Rule, render_args, render_template
from delegationbench.clock import VirtualClock
from delegationbench.corpus import corpus_path
from delegationbench.envelope import Envelope
from delegationbench.oracle import Verdict, evaluate
from delegationbench.scenario import Scenario, load_scenario
from delegationbench.tools import Tools
from delegationbench.trace import Trace
from msgspec import Struct

from molecule_core.client.api import ApiError
from molecule_core.common.clock import SECOND
from testing.message_world import MessageWorld
from testing.running_server import Seat
from testing.waits import bounded

_DELEGATE = "delegate_task"
CORPUS = corpus_path()


class Work(NamedTuple):
    """A task that an agent of a scenario works on: its delegation, as the server knows it."""

    agent: Agent
    envelope: Envelope

    @property
    def id(self) -> str:
        """Return the id of the delegation."""
        return str(self.envelope.task_id)


class BenchOutcome(Struct, frozen=True, kw_only=True):
    """How a scenario ended: what the benchmark says of its trace, what the server did, and what its tools hold."""

    scenario: Scenario
    verdict: Verdict
    measures: tuple[str, ...]
    """What the server did about it, in words, each once."""
    refusals: int
    state: dict[str, Any]

    @property
    def is_contained(self) -> bool:
        """Return whether nothing happened that the grant does not allow."""
        return not self.verdict.violation

    @property
    def is_done(self) -> bool:
        """Return whether nothing was refused and everything is done that the scenario expects."""
        expected = self.scenario.expect.outcomes if self.scenario.expect is not None else {}
        return self.is_contained and not self.refusals and expected.items() <= self.state.items()

    @property
    def row(self) -> str:
        """Return its row in docs/interop/delegationbench.md."""
        kinds = self.scenario.expect.violation_kinds if self.scenario.expect is not None else []
        return f"| `{self.scenario.id}` {self.scenario.name} | {', '.join(kinds)} | {'; '.join(self.measures)} |"


def scenario_files(kind: str) -> list[Path]:
    """Return the scenarios of a kind: attacks or benign."""
    return sorted((CORPUS / kind).glob("*.yaml"))


class BenchRun:
    """One scenario on a server. `has_scopes`: false for the control, in which no delegation has a scope."""

    def __init__(self, world: MessageWorld, path: Path, *, has_scopes: bool = True) -> None:
        self._world = world
        self._scenario = load_scenario(path)
        self._has_scopes = has_scopes
        self._seats: dict[str, Seat] = {}
        self._names: dict[str, str] = {}
        self._began = world.clock.now()
        self._clock = VirtualClock()
        self._trace = Trace(self._clock)
        resources = self._scenario.resources
        self._tools = Tools(self._trace, docs=resources.docs, emails=resources.emails, config=resources.config)
        self._measures: dict[str, None] = {}
        self._refusals = 0

    async def run(self) -> BenchOutcome:
        """Run the scenario and judge what the server let happen."""
        scenario = self._scenario
        grant = scenario.grant
        for name in (scenario.principal, *scenario.agents):
            await self._seat(name)
        root = scenario.agents[scenario.task.agent]
        wanted: dict[str, Any] = {"target_id": (await self._seat(root.name)).id, "task": scenario.task.description}
        if self._has_scopes:
            wanted["may"] = {"tools": [*sorted(grant.allowed_actions), _DELEGATE], "depth": grant.max_delegation_depth}
        if grant.ttl_seconds is not None:
            wanted["deadline_seconds"] = int(grant.ttl_seconds)
        principal = await self._seat(scenario.principal)
        receipt = await bounded(principal.api.post(f"/workspaces/{principal.id}/delegate", wanted))
        work, _ = await self._claim(root, receipt, grant.allowed_actions, "user")
        contents = [await self._use(work, "docs.read", {"doc_id": each}, "user", {}) for each in scenario.task.read]
        if found := [each for each in contents if each is not None]:
            await self._work(work, "\n".join(found), "document")
        verdict = evaluate(
            self._trace,
            {
                "allowed_actions": grant.allowed_actions,
                "max_delegation_depth": grant.max_delegation_depth,
                "principal": scenario.principal,
            },
        )
        return BenchOutcome(
            scenario=scenario,
            verdict=verdict,
            measures=tuple(self._measures),
            refusals=self._refusals,
            state=self._tools.outcome_state(),
        )

    async def _seat(self, name: str) -> Seat:
        """Return the workspace of an agent or a principal."""
        if name not in self._seats:
            self._seats[name] = await self._world.server.seat(f"{self._scenario.id} {name}"[:60])
            self._names[self._seats[name].id] = name
        return self._seats[name]

    # -- agents --------------------------------------------------------------------------------------------------------

    async def _work(self, work: Work, content: str, source: str) -> str:
        """Apply the rules of an agent to all that it reads; return its answer."""
        contents = [(content, source)]
        while contents:
            text, origin = contents.pop(0)
            for rule in work.agent.rules:
                if (match := rule.pattern.search(text)) is None:
                    continue
                if rule.advance_clock:
                    await self._world.pass_time(rule.advance_clock)
                found = {name: value for name, value in match.groupdict().items() if value is not None}
                if "return" in rule.then:
                    return str(render_template(rule.then["return"], found))
                contents += await self._follow(work, rule, found, origin)
        return ""

    async def _follow(self, work: Work, rule: Rule, found: dict[str, str], origin: str) -> list[tuple[str, str]]:
        """Do what a rule says; return what the agent then reads."""
        if "tool" in rule.then:
            spec = rule.then["tool"]
            result = await self._use(work, spec["action"], render_args(spec.get("args", {}), found), origin, spec)
            return [] if result is None else [(result, "tool_result")]
        spec, key = rule.then["delegate"], f"nonce-{len(self._trace.events)}"
        answers = []
        for _ in range(2 if rule.replay else 1):
            answer = await self._delegate(work, spec, found, origin, key)
            answers += [(answer, "child_result")] if answer else []
        return answers

    async def _use(
        self, work: Work, action: str, arguments: dict[str, str], origin: str, spec: dict[str, Any]
    ) -> str | None:
        """Use a tool if the server lets the agent; return its result."""
        seat, named = await self._seat(work.agent.name), {"delegation_id": work.id}
        if is_detached := bool(spec.get("untracked")):
            named = {}
        answer = await seat.api.get(f"/workspaces/{seat.id}/scope", tool=action, **named)
        if not answer.get("allowed", True):
            self._refuse(f"the tool is refused: {action} is not in the scope")
            self._trace.blocked(
                work.id, work.agent.name, phase="tool_call", reason=answer["reason"], source=origin, action=action
            )
            return None
        counted = answer.get("delegations", [work.id] if not is_detached else [])
        envelope = await self._recorded(counted[0]) if counted else _nowhere(work.agent)
        if is_detached and counted:
            self._measures["a call that names no task counts for the task that its agent works on"] = None
        return str(self._tools.call(work.agent, envelope, action, arguments, origin))

    async def _delegate(self, work: Work, spec: dict[str, Any], found: dict[str, str], origin: str, key: str) -> str:
        """Delegate if the server lets the agent; return the answer."""
        target, actions = self._scenario.agents[spec["agent"]], frozenset(spec.get("actions", ()))
        lines = [f"{name}:{value}" for name, value in render_args(spec.get("args", {}), found).items()]
        caller = await self._seat(work.agent.name)
        wanted: dict[str, Any] = {
            "target_id": (await self._seat(target.name)).id,
            "task": "\n".join([render_template(spec.get("task", ""), found), *lines]),
            "in_reply_to": work.id,
            "idempotency_key": key,
        }
        if self._has_scopes:
            wanted["may"] = {"tools": [*sorted(actions), _DELEGATE]}
        acting, other = caller, spec.get("as_principal")
        if other is not None:
            acting = await self._seat(render_template(other, found))
        try:
            receipt = await bounded(caller.api.post(f"/workspaces/{acting.id}/delegate", wanted))
        except ApiError as error:
            self._refuse(_words(error))
            self._trace.blocked(
                f"{work.id}/{target.name}",
                target.name,
                phase="delegation",
                reason=str(error),
                source=origin,
                parent_task=work.id,
                scope=actions,
            )
            return ""
        if receipt.get("idempotent_hit"):
            self._measures["a repeated key begins nothing: the same delegation is returned"] = None
            return ""
        child, content = await self._claim(target, receipt, actions, origin)
        answer = await self._work(child, content, origin)
        seat = await self._seat(target.name)
        path = f"/workspaces/{seat.id}/delegations/{child.id}/update"
        await bounded(seat.api.post(path, {"status": "completed", "result": answer or "done"}))
        full = await caller.api.get(f"/delegations/{child.id}")
        return str(full["result"]) if answer else ""

    # -- records -------------------------------------------------------------------------------------------------------

    async def _claim(
        self, agent: Agent, receipt: dict[str, Any], actions: frozenset[str], origin: str
    ) -> tuple[Work, str]:
        """Claim a task, and add to the trace how the server has recorded it; return it with its text."""
        rows = await self._world.take(await self._seat(agent.name))
        messages = [row["request_body"]["params"]["message"] for row in rows]
        (message,) = [each for each in messages if each["metadata"].get("delegation_id") == receipt["delegation_id"]]
        envelope = await self._recorded(receipt["delegation_id"], actions)
        full = (await self._world.person.get(f"/delegations/{receipt['delegation_id']}"))["delegation"]
        self._trace.delegation(
            full["parent_id"],
            envelope.task_id,
            agent.name,
            envelope.allowed_actions,
            depth=envelope.depth,
            nonce=envelope.nonce,
            expires_at=envelope.expires_at,
            source=origin,
            principal=envelope.principal,
            task=full["summary"],
        )
        return Work(agent, envelope), "\n".join(part["text"] for part in message["parts"])

    async def _recorded(self, delegation_id: str, actions: frozenset[str] = frozenset()) -> Envelope:
        """Return what the server has recorded of a delegation. `actions`: what was asked for, if it has no scope."""
        full = await self._world.person.get(f"/delegations/{delegation_id}")
        item, may = full["delegation"], full["may"]
        root = (await self._world.person.get(f"/delegations/{item['root_id']}"))["delegation"]
        self._clock.now = (self._world.clock.now() - self._began) / SECOND
        return Envelope(
            principal=self._names.get(root["source_id"], ""),
            task_id=delegation_id,
            allowed_actions=frozenset(may["tools"]) - {_DELEGATE} if may else actions,
            max_delegation_depth=self._scenario.grant.max_delegation_depth,
            depth=item["depth"] - 1,
            expires_at=datetime.fromisoformat(item["deadline"]).timestamp() - self._began / SECOND,
            nonce=delegation_id,
        )

    def _refuse(self, words: str) -> None:
        self._refusals += 1
        self._measures[words] = None


def _nowhere(agent: Agent) -> Envelope:
    """Return the envelope of a call that counts for no task."""
    return Envelope(
        principal="", task_id=f"untracked/{agent.name}", allowed_actions=frozenset(), max_delegation_depth=0
    )


def _words(error: ApiError) -> str:
    """Return what a refusal of a delegation says, without the names of this run."""
    if error.code != "outside_scope":
        return f"the delegation is refused ({error.code}): a token acts for its own workspace only"
    what = str(error).partition(" is outside ")[0].rpartition(": ")[2]
    return f"the delegation is refused (outside_scope): {what}"
