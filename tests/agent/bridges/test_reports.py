"""What a bridge tells the server, and when it begins no further message. The server is a stand-in, and time stands
still."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from molecule_core.agent.bridges.command import CommandBridge, ProgramRunner
from molecule_core.agent.bridges.outbox import Outbox, TurnOutcome, UnreportedUsage
from molecule_core.agent.bridges.settings import BridgeSettings
from molecule_core.agent.mailbox.inbox import MergedInbox
from molecule_core.agent.mailbox.membership import Membership
from molecule_core.client.api import ApiError, NoAnswerError
from molecule_core.tools.spec import APPROVAL_HEADER
from testing.clocks import FakeClock, SeededRandomness, settle
from testing.waits import bounded
from tests.agent.inbox_messages import letter
from tests.requirements import requirement


class Seat:
    """A seat whose server keeps a log, and may lose its answers or refuse."""

    id = "w-1"
    state = "leading"

    def __init__(self) -> None:
        self.log: list[dict[str, Any]] = []
        self.usage: list[dict[str, Any]] = []
        self.drafts: list[tuple[str, str]] = []
        self.handled: list[tuple[str, int]] = []
        self.fails: list[Exception] = []
        self.strange: list[Any] = []
        """What comes instead of its next answers."""
        self.unknown = False
        """Its token is another workspace's."""
        self.leaves: list[str] = []
        """With which approval each draft came."""
        self.token = "t-1"
        self.ticks = ["handed_over", "answered"]
        """What the server knows of each message."""
        self.requester = self

    def api(self) -> "Seat":
        return self

    async def get(self, path: str, **query: Any) -> Any:
        if self.strange:
            return self.strange.pop()
        if self.unknown:
            raise ApiError(404, {"error": "workspace not found", "code": "not_found"})
        if path.endswith("/ticks"):
            return {"ticks": [{"tick": each} for each in self.ticks]}
        return [row for row in self.log if row["activity_type"] == query["type"]]

    async def call(self, method: str, path: str, *, body: Any, headers: dict[str, str] | None) -> Any:
        self.leaves.append((headers or {}).get(APPROVAL_HEADER, ""))
        return await self.post(path, body)

    async def post(self, path: str, body: Any) -> Any:
        if self.strange:
            return self.strange.pop()
        if path.endswith("/draft"):
            self.drafts.append((path.split("/")[4], body["text"]))
        elif path.endswith("/usage"):
            self.usage.append(body)
        else:
            self.log.append(body)
        if self.fails:
            raise self.fails.pop()
        return {"state": "answered_outside", "status": "logged"}

    async def ack_message(self, activity_id: str, attempt: int) -> bool:
        self.handled.append((activity_id, attempt))
        return True


@pytest.fixture
def seat() -> Seat:
    """A seat of its own."""
    return Seat()


def bridge_of(
    place: Path, seat: Seat, inbox: MergedInbox, clock: FakeClock, **wishes: int
) -> tuple[CommandBridge, Outbox]:
    """A bridge, whose program is never started, and its outbox."""
    outbox = Outbox(place, seat.id)
    outbox.load()
    bridge = CommandBridge(
        cast(Membership, seat),
        inbox,
        outbox,
        cast(ProgramRunner, None),
        clock=clock,
        randomness=SeededRandomness(),
        settings=BridgeSettings(**wishes),
    )
    return bridge, outbox


FAILED = TurnOutcome(activity_id="m-1", kind="failed", run=1, text="no tea", attempt=2)


@requirement("G17")
@pytest.mark.parametrize("lives", [1, 2])
async def test_a_failure_whose_report_got_no_answer_is_told_once(
    seat: Seat, clock: FakeClock, tmp_path: Path, lives: int
) -> None:
    bridge, outbox = bridge_of(tmp_path, seat, MergedInbox(), clock)
    outbox.add_outcome(FAILED)
    seat.fails = [NoAnswerError("cut off after it was written")]
    with pytest.raises(NoAnswerError):
        await bridge.reporter.report_outcome(outbox.outcomes[0])
    if lives == 2:
        bridge, outbox = bridge_of(tmp_path, seat, MergedInbox(), clock)
    await bridge.reporter.report_outcome(outbox.outcomes[0])
    assert [row["request_body"] for row in seat.log] == [{"activity_id": "m-1", "run": 1, "kind": "failed"}]
    assert (seat.handled, outbox.outcomes) == ([("m-1", 2)], [])


@requirement("G17")
async def test_a_draft_that_the_server_refuses_for_good_is_let_go_and_one_that_it_may_take_later_is_kept(
    seat: Seat, clock: FakeClock, tmp_path: Path
) -> None:
    bridge, outbox = bridge_of(tmp_path, seat, MergedInbox(), clock)
    outbox.add_outcome(TurnOutcome(activity_id="m-1", kind="said", run=1, text="hello", attempt=1))
    somebody_elses = (403, "credential_not_accepted")
    for status, code in (
        (301, ""),
        (401, "invalid_token"),
        (403, ""),
        somebody_elses,
        (429, "chain_frozen"),
        (503, ""),
    ):
        seat.fails = [ApiError(status, {"error": "later", "code": code})]
        with pytest.raises(ApiError):
            await bridge.reporter.report_outcome(outbox.outcomes[0])
        assert (len(outbox.outcomes), seat.handled) == (1, [])
    missing = ApiError(404, {"error": "no such message"})
    seat.fails, seat.unknown = [missing], True
    with pytest.raises(ApiError):
        await bridge.reporter.report_outcome(outbox.outcomes[0])
    assert (len(outbox.outcomes), seat.handled) == (1, [])
    seat.fails, seat.unknown = [missing], False
    await bridge.reporter.report_outcome(outbox.outcomes[0])
    assert seat.handled == [("m-1", 1)]


@requirement("G17")
@pytest.mark.parametrize("code", ["talk_to_user_disabled", "may_not_talk", "chain_ended"])
async def test_an_answer_that_may_not_be_given_is_let_go_and_stands_in_the_log_as_a_failure(
    seat: Seat, clock: FakeClock, tmp_path: Path, code: str
) -> None:
    bridge, outbox = bridge_of(tmp_path, seat, MergedInbox(), clock)
    outbox.add_outcome(TurnOutcome(activity_id="m-1", kind="said", run=1, text="hello", attempt=1))
    seat.fails = [ApiError(403, {"error": "you may not", "code": code})]
    await bridge.reporter.report_outcome(outbox.outcomes[0])
    await bridge.reporter.flush_outcomes()
    assert outbox.outcomes == []
    assert [row["error_detail"] for row in seat.log] == ["its answer was rejected (403: you may not)"]


def ruling(code: str, status: str, **more: Any) -> ApiError:
    """A refusal for want of an approval, which stands so."""
    holder = {"kind": "person", "workspace_id": None, "name": "Ann"}
    item: dict[str, Any] = {
        "approval_id": "a-1",
        "workspace_id": "w-1",
        "action": "tool:reply",
        "details": {},
        "proposed": {},
    }
    item |= {"edited": None, "status": status, "action_hash": "h", "revision": 1, "expires_at": "", "holder": holder}
    return ApiError(403, {"error": "no", "code": code, "approval": {**item, "seq": 1, "decided": None, **more}})


@requirement("G17", "Q6")
@pytest.mark.parametrize(
    ("then", "told"),
    [
        ([], []),
        ([ApiError(409, {"error": "used", "code": "approval_used"})], []),  # by this text, whose answer was lost
        ([ruling("not_approved", "denied")], ["its answer was rejected (403: no)"]),
        ([ruling("not_approved", "expired")], ["its answer was rejected (403: no)"]),
    ],
)
async def test_an_answer_that_needs_leave_waits_for_it_and_is_given_with_it(
    seat: Seat, clock: FakeClock, tmp_path: Path, then: list[ApiError], told: list[str]
) -> None:
    bridge, outbox = bridge_of(tmp_path, seat, MergedInbox(), clock)
    outbox.add_outcome(TurnOutcome(activity_id="m-1", kind="said", run=1, text="hello", attempt=1))
    waiting = ruling("not_approved", "pending")
    seat.fails = [*then, NoAnswerError("lost"), waiting, waiting, ruling("approval_needed", "pending")]
    for _ in range(4):
        await bridge.reporter.flush_outcomes()
        assert (len(outbox.outcomes), seat.handled) == (1, [])
    for _ in range(2):
        await bridge.reporter.flush_outcomes()
    assert seat.leaves == ["", "a-1", "a-1", "a-1", "a-1"]
    assert ([row["error_detail"] for row in seat.log], outbox.outcomes) == (told, [])


@requirement("G17")
async def test_what_is_refused_for_now_holds_up_no_answer_to_another_message(
    seat: Seat, clock: FakeClock, tmp_path: Path
) -> None:
    bridge, outbox = bridge_of(tmp_path, seat, MergedInbox(), clock)
    for number in (1, 2):
        outbox.add_outcome(TurnOutcome(activity_id=f"m-{number}", kind="said", run=1, text="hello", attempt=1))
    seat.fails = [ApiError(429, {"error": "stopped", "code": "chain_frozen"})]
    running = asyncio.create_task(bridge.run())
    await settle()
    assert ([each.activity_id for each in outbox.outcomes], seat.handled) == (["m-1"], [("m-2", 1)])
    await clock.advance(30.0)
    assert (outbox.outcomes, seat.handled) == ([], [("m-2", 1), ("m-1", 1)])
    running.cancel()
    await asyncio.wait([running])


@requirement("G17")
async def test_an_answer_refused_under_a_token_that_was_replaced_meanwhile_is_given_again(
    seat: Seat, clock: FakeClock, tmp_path: Path
) -> None:
    bridge, outbox = bridge_of(tmp_path, seat, MergedInbox(), clock)
    outbox.add_outcome(TurnOutcome(activity_id="m-1", kind="said", run=1, text="hello", attempt=1))

    async def refused(path: str, body: Any) -> Any:
        seat.token = "t-2"
        raise ApiError(404, {"error": "workspace not found", "code": "not_found"})

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(seat, "post", refused)
        with pytest.raises(ApiError):
            await bridge.reporter.report_outcome(outbox.outcomes[0])
    assert (len(outbox.outcomes), seat.handled) == (1, [])


@requirement("G17")
@pytest.mark.parametrize("answer", ["", {"hello": "world"}, {"state": None}, [1]])
@pytest.mark.parametrize("kind", ["said", "failed", "tried"])
async def test_an_answer_of_somebody_else_lets_go_of_no_outcome(
    kind: str, answer: Any, seat: Seat, clock: FakeClock, tmp_path: Path
) -> None:
    bridge, outbox = bridge_of(tmp_path, seat, MergedInbox(), clock)
    outbox.add_outcome(
        FAILED if kind != "said" else TurnOutcome(activity_id="m-1", kind="said", run=1, text="hello", attempt=2)
    )
    if kind == "tried":
        outbox.mark_tried(outbox.outcomes[0])
    seat.strange = [answer] if answer != [1] or kind != "tried" else [{}]
    with pytest.raises(NoAnswerError):
        await bridge.reporter.report_outcome(outbox.outcomes[0])
    assert (len(outbox.outcomes), seat.handled, seat.drafts, seat.log) == (1, [], [], [])
    await bridge.reporter.report_outcome(outbox.outcomes[0])
    assert (outbox.outcomes, seat.handled, len(seat.drafts) + len(seat.log)) == ([], [("m-1", 2)], 1)


@requirement("G17")
async def test_what_wants_no_answer_gets_none_and_an_interrupted_turn_is_not_acknowledged(
    seat: Seat, clock: FakeClock, tmp_path: Path
) -> None:
    bridge, outbox = bridge_of(tmp_path, seat, MergedInbox(), clock)
    outbox.add_outcome(TurnOutcome(activity_id="m-1", kind="said", run=1, text="thanks", request=False))
    outbox.add_outcome(TurnOutcome(activity_id="m-2", kind="said", run=1, text=""))
    outbox.add_outcome(TurnOutcome(activity_id="m-3", kind="interrupted", run=1, text="the bridge was killed"))
    await bridge.reporter.flush_outcomes()
    assert seat.drafts == []
    assert [id_ for id_, _ in seat.handled] == ["m-1", "m-2"]
    assert not any("without an answer" in row["error_detail"] for row in seat.log)
    assert [row["error_detail"] for row in seat.log] == ["the bridge was killed"]
    assert outbox.outcomes == []
    seat.ticks.remove("answered")
    outbox.add_outcome(TurnOutcome(activity_id="m-4", kind="said", run=1, text=""))
    await bridge.reporter.flush_outcomes()
    await bridge.reporter.flush_outcomes()
    assert outbox.outcomes == [] and "without an answer" in seat.log[-1]["error_detail"]


@requirement("O2", "G17")
async def test_no_message_is_begun_while_the_outbox_is_full(seat: Seat, clock: FakeClock, tmp_path: Path) -> None:
    inbox = MergedInbox()
    inbox.add_message(letter("w-1", activity_id="m-9"))
    bridge, outbox = bridge_of(tmp_path, seat, inbox, clock, outbox_messages=1)
    outbox.add_outcome(FAILED)
    next_one = asyncio.create_task(bridge._next_entry())
    await settle()
    await clock.advance(5)
    assert not next_one.done()
    await bridge.reporter.report_outcome(outbox.outcomes[0])
    await clock.advance(5)
    assert (await bounded(next_one)).message.activity_id == "m-9"


@requirement("G17", "S14")
async def test_an_answer_for_which_there_is_no_storage_is_a_failure_and_holds_up_no_other(
    seat: Seat, clock: FakeClock, tmp_path: Path
) -> None:
    bridge, outbox = bridge_of(tmp_path, seat, MergedInbox(), clock)
    for id_ in ("m-1", "m-2"):
        outbox.add_outcome(TurnOutcome(activity_id=id_, kind="said", run=1, text="hello"))
    seat.fails = [ApiError(507, {"error": "the storage of the workspace is full", "code": "storage_full"})]
    await bridge.reporter.flush_outcomes()
    await bridge.reporter.flush_outcomes()
    assert [id_ for id_, _ in seat.drafts] == ["m-1", "m-2"]
    assert ["the storage of the workspace is full" in row["error_detail"] for row in seat.log] == [True]
    assert outbox.outcomes == []


USED = {"input_tokens": 7.0, "output_tokens": 3.0}


@requirement("G17")
async def test_the_usage_of_a_silent_turn_is_logged_once(seat: Seat, clock: FakeClock, tmp_path: Path) -> None:
    bridge, outbox = bridge_of(tmp_path, seat, MergedInbox(), clock)
    seat.ticks.remove("answered")
    outbox.add_outcome(TurnOutcome(activity_id="m-1", kind="said", run=1, text="", usage=USED))
    await bridge.reporter.flush_outcomes()
    await bridge.reporter.flush_outcomes()
    assert [row["activity_type"] for row in seat.log] == ["agent_log", "error"]


@requirement("G17")
async def test_an_answer_is_sent_though_the_log_does_not_take_what_it_used(
    seat: Seat, clock: FakeClock, tmp_path: Path
) -> None:
    bridge, outbox = bridge_of(tmp_path, seat, MergedInbox(), clock)
    seat.fails = [ApiError(422, {"error": "too long", "code": "invalid_field"})]
    outbox.add_outcome(TurnOutcome(activity_id="m-1", kind="said", run=1, text="hello", usage=USED))
    await bridge.reporter.flush_outcomes()
    assert (seat.drafts, outbox.outcomes) == ([("m-1", "hello")], [])


REPORT = UnreportedUsage(
    key="t-1:1",
    activity_id="m-1",
    model="claude-large",
    input_tokens=7,
    cached_tokens=5,
    output_tokens=3,
    cost_micros=500_000,
    at=1_000_000,
)


@requirement("US1")
async def test_usage_whose_report_got_no_response_is_reported_again_under_its_key(
    seat: Seat, clock: FakeClock, tmp_path: Path
) -> None:
    bridge, outbox = bridge_of(tmp_path, seat, MergedInbox(), clock)
    outbox.add_usage(REPORT)
    seat.fails = [NoAnswerError("cut off after it was written")]
    await bridge.reporter.flush_outcomes()
    bridge, outbox = bridge_of(tmp_path, seat, MergedInbox(), clock)
    await bridge.reporter.flush_outcomes()
    await bridge.reporter.flush_outcomes()
    assert [each["key"] for each in seat.usage] == ["t-1:1"] * 2
    assert outbox.usage_reports == []


async def test_usage_that_the_server_rejects_for_good_is_dropped(seat: Seat, clock: FakeClock, tmp_path: Path) -> None:
    bridge, outbox = bridge_of(tmp_path, seat, MergedInbox(), clock)
    outbox.add_usage(REPORT)
    seat.fails = [ApiError(404, {"error": "there is no such route", "code": "route_not_found"})]
    await bridge.reporter.flush_outcomes()
    assert outbox.usage_reports == []
