"""The hard stop of `approval_rules`: what needs leave is asked for before it is done, and is done at most once.

The leave is for exactly these arguments; if who decides has edited them, the edited ones are what is done. Above:
driving. Below: the walks about approvals, and somebody patient who makes the requests: a refusal that passes is no
decision.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from molecule_core.agent.engines.decisions import Decisions
from molecule_core.agent.engines.tooling import Call, Done
from molecule_core.agent.neutral import line
from molecule_core.ground.clock import Clock
from molecule_core.wire import approving
from molecule_core.wire.approvals import Rule
from molecule_core.wire.approvaltypes import RequestArguments
from molecule_core.wire.speaks import Speaks
from molecule_core.wire.toolspec import LEAVE, ToolError
from molecule_core.wire.verbs import key_headers

ACTION = "call:"
"""How the action of a call of a tool begins; the tool's name follows."""
SPOKEN = "tool:"
"""How rules may begin too: those of the server do, which asks for leave by itself. A rule in either spelling holds."""
FREE = ("request_approval", "decide_approval")
"""Tools that no rule of an agent's own stops: by them leave is asked for and given."""
_USED = "approval_used"
_LOOKED_AT = 100


class Gate:
    """Lets calls through, or stops them. `rules` may be exchanged while it works; `asked`: told of each approval whose
    decision has not come yet, and of the thread that it is for."""

    def __init__(
        self,
        rules: Sequence[Rule],
        speaks: Speaks,
        workspace_id: str,
        *,
        clock: Clock,
        wait_seconds: int,
        asked: Callable[[str, str], None],
        decisions: Decisions,
    ) -> None:
        self.rules = list(rules)
        self._speaks = speaks
        self._own = workspace_id
        self._clock = clock
        self._wait = wait_seconds
        self._noted = asked
        self._decisions = decisions

    async def passes(
        self,
        call: Call,
        *,
        waits: Callable[[bool], Awaitable[None]],
        again: bool = False,
        more: Sequence[Rule] = (),
    ) -> Call | Done:
        """What may be run now, or what the model is told instead. `waits`: told when a decision is waited for, and when
        no more; `more`: rules that hold for this call too; `again`: an earlier life may have used the leave for this
        very call already. Never raises for a refusal of the server: what is not known to be allowed is not done."""
        try:
            rule = await self._rule_for(call, (*self.rules, *more))
            if rule is None:
                return call
            await waits(True)
            try:
                return await self._asked(call, rule, again)
            finally:
                await waits(False)
        except ToolError as error:
            return Done(f"not done: {call.tool} needs an approval, which could not be had: {error.text}", True)

    async def _rule_for(self, call: Call, rules: Sequence[Rule]) -> Rule | None:
        """The first rule that stops a call."""
        if call.tool in FREE:
            return None
        names, cost = (f"{ACTION}{call.tool}", f"{SPOKEN}{call.tool}"), _cost(call.arguments)
        for rule in rules:
            cheap = rule.cost_above is not None and cost is not None and cost <= rule.cost_above
            meant = any(fits(rule.action, name) for name in names) and not cheap
            if meant and not (rule.first_time and await self._used_before(names[0])):
                return rule
        return None

    async def _used_before(self, action: str) -> bool:
        path = approving.path_of(self._own)
        page = await self._speaks.call("GET", path, query={"role": "requester", "limit": _LOOKED_AT})
        rows = page.get("approvals") if isinstance(page, dict) else None
        return any(row.get("action") == action and row.get("used_at") for row in rows or () if isinstance(row, dict))

    async def _asked(self, call: Call, rule: Rule, again: bool) -> Call | Done:
        arguments = dict(call.arguments) if isinstance(call.arguments, dict) else {}
        named = arguments.pop(LEAVE, "")
        plain = replace(call, arguments=arguments)
        known = await self._named(str(named), plain) if named else None
        item = known or await self._requested(plain, rule)
        if item.status != "approved":
            return Done(_stopped(call.tool, item), True)
        try:
            path = approving.path_of(self._own, item.approval_id, "use")
            # Asked again because an answer was lost, it is the same use.
            said, same = {"action_hash": item.action_hash}, key_headers(_key(call))
            await self._speaks.call("POST", path, body=said, headers=same)
        except ToolError as error:
            if not (again and error.code == _USED):
                raise
        return _in_force(plain, item)

    async def _named(self, approval_id: str, call: Call) -> approving.Standing | None:
        """The approval that a call names, if it is for this very action."""
        path = approving.path_of(self._own, approval_id)
        told = await self._speaks.call("GET", path)
        item = approving.item_of(told)
        same = item.action == f"{ACTION}{call.tool}" and told.get("proposed") == _details(call)
        return item if same else None

    async def _requested(self, call: Call, rule: Rule) -> approving.Standing:
        cost = _cost(call.arguments)
        given = RequestArguments(
            action=f"{ACTION}{call.tool}",
            reason=f"The agent wants to call {call.tool}. A rule of its own says that this needs an approval"
            + (f": {line(rule.note, 300)}" if rule.note else "."),
            details=_details(call),
            cost=UNSET if cost is None else cost,
            wait=self._wait,
        )
        with self._decisions.asking():
            told = await approving.request(
                self._speaks, self._own, given, _key(call), clock=self._clock, thread_id=call.thread_id
            )
            self._decisions.told(told["approval_id"], settled=told["settled"])
        if not told["settled"]:
            self._noted(told["approval_id"], call.thread_id)
        path = approving.path_of(self._own, told["approval_id"])
        return approving.item_of(await self._speaks.call("GET", path))


def fits(pattern: str, action: str) -> bool:
    """Whether an action fits a pattern, in which `*` is any text."""
    return re.fullmatch(".*".join(re.escape(each) for each in pattern.split("*")), action, re.DOTALL) is not None


def _details(call: Call) -> dict[str, Any]:
    return {"tool": call.tool, "arguments": call.arguments}


def _cost(arguments: Any) -> float | None:
    cost = arguments.get("cost") if isinstance(arguments, dict) else None
    return float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) and cost >= 0 else None


def _key(call: Call) -> str:
    """One approval for one call, however often it is tried."""
    return f"leave:{call.thread_id}:{call.call_id}"[:128]


def _in_force(call: Call, item: approving.Standing) -> Call | Done:
    """What was approved, which may be other than what was asked for."""
    if item.edited is None:
        return call
    arguments = item.details.get("arguments")
    if item.details.get("tool") != call.tool or not isinstance(arguments, dict):
        return Done("not done: it was approved in a form that is no call of this tool. Say so to whoever asked.", True)
    return replace(call, arguments=arguments)


def _stopped(tool: str, item: approving.Standing) -> str:
    said = f" They say: {line(item.decided.note, 500)}" if item.decided is not None and item.decided.note else ""
    if approving.is_open(item):
        return (
            f"not done: {tool} needs an approval ({item.approval_id}), which is asked for. The decision comes as a "
            f"message; if it is approved, call {tool} again with the very same arguments and {LEAVE} "
            f'"{item.approval_id}". Do nothing of it until then.{said}'
        )
    return f"not done: the approval for {tool} was {item.status}. Do not try it in another way.{said}"


def edited_note(asked: Call, done: Call) -> str:
    """What the model is told if not its own arguments were used."""
    if done is asked:  # nobody was asked, and `approval_id` may be what the call is about
        return ""
    own = asked.arguments
    if isinstance(own, dict) and LEAVE in own:
        own = {name: value for name, value in own.items() if name != LEAVE}
    if own == done.arguments:
        return ""
    return f"(approved with other arguments, which were used: {msgspec.json.encode(done.arguments).decode()})\n"
