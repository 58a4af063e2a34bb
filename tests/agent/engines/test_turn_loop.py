"""The loop of a turn: what is appended when, what a stop, a kill and a lost answer do, what needs leave."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from molecule_core.agent.config import AgentSettings
from molecule_core.agent.engines import texts
from molecule_core.agent.engines.approval_cache import DecisionCache
from molecule_core.agent.engines.approval_gate import ToolApprovalGate
from molecule_core.agent.engines.chat_encoding import to_chat_messages
from molecule_core.agent.engines.model_factory import ModelFactory, OpenModel
from molecule_core.agent.engines.models import (
    ModelError,
    ModelEvent,
    ModelRequest,
    ModelToolCall,
    ModelUsage,
    StreamEnd,
    TextDelta,
)
from molecule_core.agent.engines.retry import PersistentRetry
from molecule_core.agent.engines.sampler import Sampler
from molecule_core.agent.engines.settings import Budget, RunConfig
from molecule_core.agent.engines.toolbox import ThreadToolCall, Toolbox
from molecule_core.agent.engines.turn_driver import DriverDependencies, TurnDriver
from molecule_core.agent.engines.turn_planner import EndStep
from molecule_core.agent.live.reporter import LiveReporter
from molecule_core.client.api import ApiError, NoAnswerError
from molecule_core.common.clock import SystemClock
from molecule_core.common.ids import IdGenerator
from molecule_core.tools.mcp_dispatcher import CallContext, ToolResult
from molecule_core.tools.runners.message_tools import IDEMPOTENCY_HEADER
from molecule_core.tools.runners.requester import RetryingRequester
from molecule_core.tools.spec import ToolError, ToolSpec
from molecule_core.wire.schemas.approvals import ApprovalRule
from molecule_core.wire.schemas.thread_log import TurnTrigger
from testing.clocks import SeededRandomness
from testing.waits import IN_PROCESS_SECONDS, bounded
from tests.agent.engines.unlimited import Unlimited
from tests.agent.report_server import ReportServer
from tests.agent.thread_server import BASE, StandIn
from tests.requirements import requirement

PEERS = ModelToolCall("c1", "list_peers", "{}")
SPEAK = ModelToolCall("c1", "send_message_to_user", '{"message": "hi"}')
REMEMBER = ModelToolCall("c1", "commit_memory", '{"content": "x"}')


class Scripted(Struct):
    """A model that says what a test wants, once each; `seen`: what it was shown."""

    plan: list[Any]
    seen: list[ModelRequest] = []
    gate: Any = None

    async def sample(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.seen.append(request)
        if self.gate is not None:
            await self.gate.wait()
        said = self.plan.pop(0)
        if callable(said):
            said = said()
        if isinstance(said, Exception):
            raise said
        for each in said if isinstance(said, list) else [said]:
            yield TextDelta(each) if isinstance(each, str) else each
        yield ModelUsage(10, 5)
        yield StreamEnd("stop")

    async def close(self) -> None:
        """Nothing is open."""


class Bench:
    """A driver over one thread in memory, with tools that note what they were asked."""

    def __init__(self, *plan: Any, rules: tuple[ApprovalRule, ...] = (), **config: Any) -> None:
        self.threads, self.model = StandIn(), Scripted(list(plan))
        self.config = RunConfig(
            **{"model": "scripted:none", "beat_seconds": 0.05, "approval_rules": list(rules), "tries": 2, **config}
        )
        self.ran: list[tuple[str, Any, str]] = []
        self.collabs: list[str] = []
        self.leaves: list[str] = []
        self.lost_uses = 0
        self.tool: Callable[[str], Any] = lambda name: {"ran": name}
        self.asked: list[tuple[str, str, Any]] = []
        self.approval: dict[str, Any] = {}
        self.asks: Callable[[], Any] | None = None
        self.ends: list[EndStep] = []
        self.watcher = ReportServer()

    async def drive(self) -> EndStep:
        """One life of the open turn."""
        clock = SystemClock()
        # Two lives may begin in one millisecond: each makes ids of its own, as processes do.
        ids = IdGenerator(clock, SeededRandomness(100 + len(self.ends)))
        patience = PersistentRetry(clock, SeededRandomness(2))
        box = Toolbox(True, self, self._collab, on_result=lambda _, __: None, max_bytes=2000)
        rules = self.config.approval_rules
        speaks, noted = RetryingRequester(self, patience), DecisionCache()
        gate = ToolApprovalGate(
            rules, speaks, "w1", clock=clock, wait_seconds=1, on_pending=lambda _, __: None, decisions=noted
        )
        sampler = Sampler(
            clock=clock, ids=ids, randomness=SeededRandomness(3), limit=Unlimited(), tries=2, seconds=5, parallel=1
        )
        opener = ModelFactory(Path(), {}, self.config)
        opener.open = lambda full_name: OpenModel(self.model, full_name)  # type: ignore[method-assign]
        live = LiveReporter(self.watcher, clock, AgentSettings(live_seconds=0.01))
        hands = DriverDependencies(self.threads, opener, sampler, box, gate, patience, ids, self.config, live, Path())  # type: ignore[arg-type]
        driver = TurnDriver(
            hands, "me", prompt=lambda: None, on_end=lambda _, end: self.ends.append(end), task_of=lambda _: ""
        )
        await bounded(driver.drive("th1"))
        await live.close()
        return self.ends[-1]

    async def _collab(self, thread_id: str, given: Struct, call_id: str) -> dict[str, Any]:
        self.collabs.append(call_id)
        return {"from": thread_id, "call": call_id, "given": type(given).__name__}

    async def _ran(self, spec: ToolSpec, arguments: Struct, calling: CallContext) -> ToolResult:
        self.ran.append((spec.name, arguments, calling.meta["molecule/call"]))
        found = self.tool(spec.name)
        return ToolResult(await found if asyncio.iscoroutine(found) else found)

    async def call(self, *given: Any, **more: Any) -> Any:
        """Runs a tool, or answers a request about approvals: a `Runs` and a `Speaks`."""
        if isinstance(given[0], ToolSpec):
            return await self._ran(*given)
        if self.asks is not None:
            await self.asks()
        method, path = given
        self.asked.append((method, path.rpartition("/")[2], more.get("body")))
        if path.endswith("/use"):
            key = more["headers"][IDEMPOTENCY_HEADER]
            if self.approval.setdefault("used", key) != key:
                raise ToolError("used", "approval_used")
            if self.lost_uses:
                self.lost_uses -= 1
                raise NoAnswerError("it was used, and the answer was lost")
            return {}
        if method == "GET" and more.get("query"):
            return {"approvals": [{"action": "call:send_message_to_user", "used_at": self.approval.get("before")}]}
        if method == "POST":
            self.approval |= {"action": more["body"]["action"], "details": more["body"]["details"]}
            self.leaves.append(more["headers"][IDEMPOTENCY_HEADER])
        return _approval(self.approval)


def _approval(known: dict[str, Any]) -> dict[str, Any]:
    details = known.get("edited") or known["details"]
    status = known.get("status", "approved")
    ruling = {"decision": "deny", "by": {"kind": "person", "id": "p", "name": "Ann"}, "at": "", "note": "too early"}
    item = {"approval_id": "a1", "workspace_id": "w1", "action": known["action"], "details": details, "revision": 1}
    item |= {"proposed": known["details"], "edited": known.get("edited"), "status": status, "action_hash": "h"}
    item |= {"holder": {"kind": "person", "workspace_id": None, "name": "Ann"}, "expires_at": "", "seq": 1}
    more = {"revision": 1, "action_hash": "h", "edited": False}
    return {**item, "decided": {**ruling, **more} if status == "denied" else None}


def output(bench: Bench) -> str:
    """What the last call of a tool has given."""
    return str(next(each.entry["text"] for each in reversed(bench.threads.lines) if each.type == "tool_output"))


@requirement("AR2", "AR3")
async def test_a_call_is_in_the_log_before_it_is_run_and_every_request_is_the_log_so_far() -> None:
    bench = Bench(["Let me see.", PEERS], "Nobody.")
    bench.tool = lambda _: {"log": bench.threads.types()[-1]}
    bench.threads.say("who is there?")
    bench.threads.lose = 2  # answers get lost; nothing is appended twice
    assert await bench.drive() == EndStep("completed", final="Nobody.")
    first = ["user_message", "agent_message", "tool_call", "usage"]
    assert bench.threads.types() == [*first, "tool_output", "agent_message", "usage"]
    assert '"usage"' in output(bench)  # what was last in the log while it ran
    whole = to_chat_messages((await bench.threads.get_model_context("th1")).items)
    for request in bench.model.seen:
        chat = to_chat_messages(request.items)
        assert chat == whole[: len(chat)] and chat[0]["content"] == BASE
    assert bench.threads.ended == [{"status": "completed", "final": "Nobody.", "seen": 9}]
    assert [name for name, _, _ in bench.ran] == ["list_peers"]


@requirement("AR3")
async def test_a_stop_ends_the_model_and_the_tool_that_work_and_nothing_is_said_after_it() -> None:
    bench = Bench("never said")
    bench.model.gate = asyncio.Event()
    bench.threads.say("think long")
    driving = asyncio.create_task(bench.drive())
    while not bench.model.seen:
        await asyncio.wait([driving], timeout=0.01)
    bench.threads.end_turn_now()
    assert (await bounded(driving)).status == "interrupted"
    assert bench.threads.types() == ["user_message"] and bench.threads.ended == []
    bench = Bench([PEERS], "never said")
    gone = asyncio.Event()

    async def stuck() -> Any:
        bench.threads.end_turn_now()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            gone.set()

    bench.tool = lambda _: stuck()
    bench.threads.say("work long")
    assert (await bench.drive()).status == "interrupted" and gone.is_set()


async def test_people_who_watch_see_text_and_tools_of_a_turn_while_it_runs() -> None:
    bench = Bench(["I ", "look.", PEERS], ["Nobody", "."])
    bench.threads.say("who is there?")
    await bench.drive()
    assert bench.watcher.text == "I look.\n\nNobody."
    assert [(each["tool"], each["status"]) for each in bench.watcher.reports if each["type"] == "tool"] == [
        ("list_peers", "started"),
        ("list_peers", "completed"),
    ]
    assert {each["activity_id"] for each in bench.watcher.bodies} == {"t1"}
    assert bench.watcher.reports[-1] == {"type": "status", "status": "ended", "text": ""}


async def test_people_who_watch_see_that_a_failed_model_is_tried_again_and_that_a_call_waits() -> None:
    bench = Bench(ModelError("the model is busy", retryable=True), [SPEAK], "said", rules=(STOPS,))
    bench.threads.say("speak")
    await bench.drive()
    statuses = [each["status"] for each in bench.watcher.reports if each["type"] == "status"]
    assert statuses == ["working", "retrying", "waiting_for_approval", "working", "working", "ended"]


async def test_a_person_who_watches_stops_a_turn_at_once() -> None:
    bench = Bench("never said", beat_seconds=20)  # the next renewal of the claim would be too late
    bench.model.gate = asyncio.Event()
    bench.threads.say("think long")
    driving = asyncio.create_task(bench.drive())
    while not bench.model.seen:
        await asyncio.wait([driving], timeout=0.01)
    bench.watcher.stop("t1")
    assert (await bounded(driving)).status == "interrupted"
    assert bench.watcher.reports[-1]["status"] == "stopped"


@requirement("AR3")
async def test_what_somebody_says_meanwhile_is_seen_at_the_next_step() -> None:
    bench = Bench("B it is")

    def late() -> str:
        bench.threads.steer("no, B")
        return "A it is"

    bench.model.plan.insert(0, late)
    bench.threads.say("A or B?")
    assert await bench.drive() == EndStep("completed", final="B it is")
    assert [each.text for each in bench.model.seen[-1].items][2:] == ["A or B?", "no, B", "A it is"]


@requirement("AR3")
@pytest.mark.parametrize(("call", "again"), [(PEERS, True), (SPEAK, True), (REMEMBER, False)])
async def test_after_a_kill_a_call_is_run_again_only_if_that_cannot_do_it_twice(
    call: ModelToolCall, again: bool
) -> None:
    bench = Bench([call], "done")

    async def killed() -> Any:
        raise asyncio.CancelledError

    bench.tool = lambda _: killed()
    bench.threads.say("go")
    with pytest.raises(asyncio.CancelledError):
        await bench.drive()
    bench.tool = lambda name: {"ran": name}
    assert await bench.drive() == EndStep("completed", final="done")
    assert len(bench.ran) == (2 if again else 1)
    assert len({key for _, _, key in bench.ran}) == 1
    assert (output(bench) == texts.INTERRUPTED_TEXT) is not again
    spent = [each for each in bench.threads.lines if each.type == "usage"]
    assert len(spent) == 2 and bench.threads.types().count("tool_call") == 1


@requirement("AR3")
async def test_a_failing_model_is_asked_again_and_then_ends_the_turn_with_its_words() -> None:
    bench = Bench(ModelError("busy", retryable=True, retry_after=0.01), "at last")
    bench.threads.say("hi")
    assert await bench.drive() == EndStep("completed", final="at last")
    bench = Bench(ModelError("no such key", retryable=False))
    bench.threads.say("hi")
    assert await bench.drive() == EndStep("failed", error="no such key")
    assert bench.threads.ended == [{"status": "failed", "error": "no such key", "seen": 3}]
    bench = Bench([ModelToolCall("c1", "no_such_tool", "{"), ModelToolCall("c1", "list_peers", "[]")], "sorry")
    bench.threads.say("hi")
    assert await bench.drive() == EndStep("completed", final="sorry")
    said = [each.entry["text"] for each in bench.threads.lines if each.type == "tool_output"]
    assert "not found" in said[0] and "not_an_object" in said[1] and not bench.ran


@requirement("AR2", "AR3")
async def test_a_thread_of_somebody_else_is_told_once_how_messages_come_to_it() -> None:
    bench = Bench("one", "two")
    del bench.threads.lines[1]
    for number in ("t1", "t2"):
        bench.threads.say("hi", number)
        await bench.drive()
    notes = [each.entry["text"] for each in bench.threads.lines if each.type == "context_note"]
    assert notes == [texts.ENGINE_INSTRUCTIONS]


@requirement("AR3")
async def test_a_thread_may_use_only_the_tools_that_it_has() -> None:
    bench = Bench([PEERS], [SPEAK], "done")
    bench.threads.tools = ["send_message_to_user"]
    bench.threads.say("go")
    assert await bench.drive() == EndStep("completed", final="done")
    assert [each.name for each in bench.model.seen[0].tools] == ["send_message_to_user"]
    assert [name for name, _, _ in bench.ran] == ["send_message_to_user"]


@requirement("AR3")
async def test_the_permissions_of_a_thread_narrow_its_tools_and_are_told_once() -> None:
    bench = Bench([PEERS], [SPEAK], "done", "again")
    bench.threads.permissions = {"allow": ["send_*", "list_*"], "deny": ["list_*"], "ask": ["send_message_to_*"]}
    for number in ("t1", "t2"):
        bench.threads.say("go", number)
        await bench.drive()
    names = [each.name for each in bench.model.seen[0].tools]
    assert names == ["send_message_to_user", "send_message"]
    assert [name for name, _, _ in bench.ran] == ["send_message_to_user"]
    assert [each[:2] for each in bench.asked] == [("POST", "approvals"), ("GET", "a1"), ("POST", "use")]
    notes = [each.entry["text"] for each in bench.threads.lines if each.type == "context_note"]
    assert len(notes) == 1 and "send_message_to_user" in notes[0] and "list_peers" not in notes[0]


@requirement("AR3")
async def test_permissions_that_are_not_understood_end_the_turn_before_the_model_is_asked() -> None:
    bench = Bench("hello")
    bench.threads.permissions = {"sandbox": "read-only"}
    bench.threads.say("go")
    end = await bench.drive()
    assert end.status == "failed" and "not valid" in (end.error or "") and "sandbox" in (end.error or "")
    assert bench.model.seen == []


@requirement("AR3")
async def test_a_thread_that_is_too_long_is_summarised_and_its_open_message_stays_an_item() -> None:
    bench = Bench("All about ships.", "Three masts.", compact_at_tokens=400, budget=Budget(turn=30))
    bench.threads.say("x" * 1000, "t0")
    bench.threads.say("How many masts?")
    assert await bench.drive() == EndStep("completed", final="Three masts.")
    assert bench.threads.types()[2:6] == ["context_note", "compaction", "context_note", "usage"]
    first, second = bench.model.seen
    assert first.items[-1].text == texts.COMPACT_PROMPT and not first.may_call and second.may_call
    assert [each.type for each in second.items] == ["base", "layer", "compaction", "user_message", "context_note"]
    assert [each.role for each in second.items[2:4]] == ["assistant", "user"]
    assert first.items[0] == second.items[0] and first.cache_key == second.cache_key
    assert second.items[2].text == texts.format_summary("All about ships.")
    assert second.items[3].text == "How many masts?" and second.items[4].text == texts.COMPACTED_NOTE
    bench.model.plan[:] = ["Ships."]
    bench.threads.say("", "t2", "compact")
    assert await bench.drive() == EndStep("completed")
    shown = [each.text for each in (await bench.threads.get_model_context("th1")).items]
    assert shown == [BASE, texts.ENGINE_INSTRUCTIONS, texts.format_summary("Ships.")]
    bench.model.plan[:] = [[PEERS], [PEERS], "never"]
    bench.threads.say("Again", "t3")
    end = await bench.drive()
    assert end.status == "failed" and "30 of 30 tokens of the turn" in str(end.error)


STOPS = ApprovalRule(action="tool:send_*", note="people read it")


@requirement("AR5")
async def test_a_rule_stops_a_call_before_it_is_made_until_it_is_approved_and_used() -> None:
    bench = Bench([SPEAK], "done", rules=(STOPS,))
    bench.tool = lambda name: {"asked": [each[1] for each in bench.asked]}
    bench.threads.say("tell them")
    assert await bench.drive() == EndStep("completed", final="done")
    (_, arguments, _), use = bench.ran[0], bench.asked[-1]
    assert arguments.message == "hi" and use == ("POST", "use", {"action_hash": "h"})
    asked = bench.asked[0][2]
    assert asked["action"] == "call:send_message_to_user" and asked["details"]["arguments"] == {"message": "hi"}
    flags = [each.entry["flags"] for each in bench.threads.lines if each.type == "status"]
    assert flags == [["waiting_on_approval"], []] and '"use"' in output(bench)


@requirement("AR5")
@pytest.mark.parametrize("status", ["denied", "expired", "pending"])
async def test_without_a_yes_nothing_is_done_and_the_model_is_told_why(status: str) -> None:
    bench = Bench([SPEAK], "done", rules=(STOPS,))
    bench.approval["status"] = status
    bench.threads.say("tell them")
    await bench.drive()
    assert not bench.ran and not bench.approval.get("used") and output(bench).startswith("not done: ")
    assert ("a1" in output(bench)) is (status == "pending") and ("too early" in output(bench)) is (status == "denied")


@requirement("AR5")
@pytest.mark.parametrize(
    ("rule", "before", "asks"),
    [
        (ApprovalRule(action="*", first_time=True), None, True),
        (ApprovalRule(action="*", first_time=True), "yesterday", False),
        (ApprovalRule(action="call:*", cost_above=10), None, True),  # nobody knows what it costs
        (ApprovalRule(action="tool:send_*_user"), None, True),
        (ApprovalRule(action="call:send"), None, False),
        (ApprovalRule(action="call:*.*"), None, False),
    ],
)
async def test_a_rule_holds_by_its_pattern_its_cost_and_what_was_approved_before(
    rule: ApprovalRule, before: str | None, asks: bool
) -> None:
    bench = Bench([SPEAK], "done", rules=(rule,))
    bench.approval["before"] = before
    bench.threads.say("tell them")
    await bench.drive()
    assert bool(bench.approval.get("used")) is asks and len(bench.ran) == 1


@requirement("AR5")
async def test_what_was_approved_is_what_is_done_and_a_later_yes_is_good_for_the_very_same_call() -> None:
    edited = {"tool": "send_message_to_user", "arguments": {"message": "hello"}}
    bench = Bench([SPEAK], "done", rules=(STOPS,))
    bench.approval["edited"] = edited
    bench.threads.say("tell them")
    await bench.drive()
    assert [each.message for _, each, _ in bench.ran] == ["hello"] and '"hello"' in output(bench)
    again = ModelToolCall("c2", "send_message_to_user", '{"message": "hi", "approval_id": "a1"}')
    other = ModelToolCall("c3", "send_message_to_user", '{"message": "ho", "approval_id": "a1"}')
    bench = Bench([again], [other], "done", rules=(STOPS,))
    bench.approval |= {"action": "call:send_message_to_user", "details": {**edited, "arguments": {"message": "hi"}}}
    bench.threads.say("it is approved")
    await bench.drive()
    assert [each.message for _, each, _ in bench.ran] == ["hi"]  # the other one is asked for anew, and not free
    assert [each[1] for each in bench.asked[:2]] == ["a1", "use"] and bench.asked[3][0] == "POST"


@requirement("AR3")
async def test_calls_of_two_threads_are_two_even_if_their_models_call_them_the_same() -> None:
    bench, names = Bench(), list[str]()
    box = Toolbox(True, bench, bench._collab, on_result=lambda _, __: None, max_bytes=2000)
    for thread_id in ("one", "two", "one"):
        await box.run_call(ThreadToolCall(thread_id, "call_0", "list_peers", {}), None)
        names.append(bench.ran[-1][2])
    assert names[0] == names[2] != names[1], "a call keeps its name, which is no other call's"


SPAWN = ModelToolCall("c1", "spawn_agent", '{"task_name": "dig", "message": "Dig."}')


@requirement("AR3")
async def test_a_call_that_its_model_calls_like_one_from_before_a_compaction_is_another_one() -> None:
    bench = Bench([SPAWN], "one", "In short.", [SPAWN], "two", rules=(ApprovalRule(action="call:spawn_*"),))
    triggers: tuple[TurnTrigger, ...] = ("user", "compact", "user")
    for number, trigger in enumerate(triggers):
        bench.threads.say("" if trigger == "compact" else "dig", f"t{number}", trigger)
        assert (await bench.drive()).status == "completed"
        bench.approval.clear()
    assert len(set(bench.collabs)) == len(set(bench.leaves)) == 2, "both were done, each with its own leave"
    names = [each.entry["call_id"] for each in bench.threads.lines if each.type == "tool_call"]
    assert names == bench.collabs, "the log and the platform say the same"
    chat = to_chat_messages(bench.model.seen[-1].items)
    ids = [call["id"] for each in chat for call in each.get("tool_calls") or ()]
    assert ids == ["c1"] and chat[-1]["tool_call_id"] == "c1", "its provider gets back what it has said"


@requirement("AR3")
async def test_calls_that_a_model_calls_the_same_are_two_in_its_sight_and_for_the_platform() -> None:
    bench = Bench([PEERS, PEERS], [PEERS], "done")
    bench.threads.say("go")
    await bench.drive()
    chat = to_chat_messages(bench.model.seen[-1].items)
    ids = [call["id"] for each in chat for call in each.get("tool_calls") or ()]
    assert ids[0] == "c1" and len(set(ids)) == len({key for _, _, key in bench.ran}) == 3


@requirement("AR3")
async def test_a_call_of_an_older_version_goes_on_under_the_name_that_it_began_with() -> None:
    bench = Bench("done")
    bench.threads.say("go")
    bench.threads.write("tool_call", "t1", {"call_id": "c1", "tool": "list_peers", "arguments": {}})
    bench.threads.write("tool_call", "t1", {"call_id": "c2", "tool": "list_agents", "arguments": {}})
    assert await bench.drive() == EndStep("completed", final="done")
    assert [key for _, _, key in bench.ran] == [hashlib.sha256(b"th1 c1").hexdigest()[:32]]
    assert bench.collabs == ["c2"]


@requirement("AR3")
async def test_what_no_server_can_keep_of_an_answer_is_left_out() -> None:
    odd = ModelToolCall("c1", "commit_memory", '{"content": "a\\u0000b", "\\u0000": ["\\u0000"]}')
    endless = ModelToolCall("c2", "commit_memory", '{"content": ' + "[" * 100_000)
    bench = Bench(["a\x00b", "\ud83d", "\ude00 \ud800", odd, endless], "done")
    bench.tool = lambda _: {"ran": True}
    bench.threads.say("go")
    assert await bench.drive() == EndStep("completed", final="done")
    kinds = ("agent_message", "tool_call")
    said, call, other = [each.entry for each in bench.threads.lines if each.type in kinds][:3]
    assert said["text"] == "ab\U0001f600 \ufffd" and call["arguments"] == {"content": "ab", "": [""]}
    assert list(other["arguments"]) == ["not_json"]


MANY = [ModelToolCall(f"c{number}", "list_peers", "{}") for number in range(100)]


@requirement("AR3")
async def test_an_answer_that_the_server_refuses_fails_its_turn_and_counts() -> None:
    bench = Bench(MANY, "never said")
    bench.threads.say("go")
    end = await bench.drive()
    assert end.status == "failed" and "at most 100 entries" in str(end.error)
    assert bench.threads.types() == ["user_message", "usage"] and len(bench.threads.ended) == 1


@requirement("AR3")
@pytest.mark.parametrize("told", [True, False])
async def test_a_turn_of_which_nothing_can_be_kept_ends_all_the_same(told: bool) -> None:
    bench = Bench("never said")
    if not told:  # what it is told at first is refused already
        del bench.threads.lines[1]
    bench.threads.say("go")
    bench.threads.full = True
    end = await bench.drive()
    assert end.status == "failed" and "too large" in str(end.error) and len(bench.model.seen) == told
    assert len(bench.threads.ended) == 1


@requirement("AR3")
async def test_a_turn_with_a_call_whose_output_is_refused_ends_all_the_same() -> None:
    bench = Bench([PEERS], "never said")

    def fills(_: str) -> Any:
        bench.threads.full = True
        return {}

    bench.tool = fills
    bench.threads.say("go")
    end = await bench.drive()
    assert end.status == "failed" and "too large" in str(end.error) and len(bench.threads.ended) == 1


@requirement("AR3")
async def test_a_turn_that_the_server_ends_at_its_begin_for_its_budget_is_not_sampled_and_says_so() -> None:
    bench = Bench("never said")
    bench.threads.say("go")
    bench.threads.spent = True
    end = await bench.drive()
    assert end.status == "failed" and "budget" in str(end.error)
    assert bench.model.seen == [] and bench.threads.types() == ["user_message"]


@requirement("AR5")
async def test_a_call_that_needed_no_leave_is_not_said_to_be_changed_even_if_it_names_an_approval() -> None:
    decide = ModelToolCall("c1", "decide_approval", '{"approval_id": "a1", "decision": "escalate"}')
    bench = Bench([decide], "passed on", rules=(ApprovalRule(action="call:*"),))
    bench.threads.say("decide")
    await bench.drive()
    assert output(bench) == '{"ran":"decide_approval"}'


@requirement("AR3", "AR5")
@pytest.mark.parametrize(
    "call", [SPEAK, ModelToolCall("c1", "request_approval", '{"action": "x", "reason": "y"}'), PEERS]
)
async def test_an_engine_that_is_ended_says_farewell_to_a_server_that_is_away_but_not_for_long(
    call: ModelToolCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("molecule_core.agent.engines.retry._SHUTDOWN_SECONDS", 0.05)
    bench = Bench([call], "never said", rules=(STOPS,))
    waits = asyncio.Event()

    async def stuck() -> Any:
        bench.threads.away = True
        waits.set()
        await asyncio.get_running_loop().create_future()

    bench.tool = lambda _: stuck()
    bench.asks = stuck
    bench.threads.say("go")
    driving = asyncio.create_task(bench.drive())
    await bounded(waits.wait())
    driving.cancel()
    await asyncio.wait([driving], timeout=IN_PROCESS_SECONDS / 2)  # before the bench gives up by itself
    assert driving.cancelled() and bench.ends == []


@requirement("AR5", "G6")
async def test_leave_whose_answer_was_lost_as_it_was_used_is_used_by_that_call_all_the_same() -> None:
    bench = Bench([SPEAK], "Done.", rules=(STOPS,))
    bench.lost_uses = 2
    bench.threads.say("tell them")
    assert await bench.drive() == EndStep("completed", final="Done.")
    assert [name for name, _, _ in bench.ran] == ["send_message_to_user"]


@requirement("AR5", "G6")
@pytest.mark.parametrize("status", [200, 302, 401, 502])
async def test_a_refusal_that_passes_is_no_decision_wherever_on_the_way_to_leave_it_comes(status: int) -> None:
    bench, requests = Bench([SPEAK], "Done.", rules=(ApprovalRule(action="call:send_*", first_time=True),)), list[int]()

    async def stumbles() -> None:
        requests.append(status)
        if len(requests) % 2:
            raise ApiError(status, {"error": "not now"})

    bench.asks = stumbles
    bench.threads.say("tell them")
    assert await bench.drive() == EndStep("completed", final="Done.")
    assert [name for name, _, _ in bench.ran] == ["send_message_to_user"]
    assert [method for method, _, _ in bench.asked] == ["GET", "POST", "GET", "POST"]
