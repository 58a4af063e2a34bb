"""Text of a live turn as deltas of the item that the log's entry completes."""

from molecule_core.api.app_server.items import ItemBuilder, PendingNotification, ThreadLogLine
from molecule_core.api.app_server.live_items import LiveItems
from molecule_core.wire.schemas.live_turns import LiveTurnPayload
from molecule_core.wire.schemas.thread_log import AgentMessageEntry, ThreadEntry, TurnEndedEntry, TurnStartedEntry


class _Client:
    """What a client is sent, in short."""

    def __init__(self) -> None:
        self.builder, self.live, self.ordinal = ItemBuilder(), LiveItems(), 0
        self.logs(TurnStartedEntry("turn", 1))

    def says(self, text: str, at: int, activity_id: str = "m") -> list[str]:
        payload = LiveTurnPayload(
            activity_id=activity_id,
            thread_id="t",
            status="working",
            status_text="",
            started_at="2026-01-01T00:00:00Z",
            text_at=at,
            text=text,
            tools=[],
            whole=at == 0,
            stop_requested_by=None,
        )
        return [_short(each) for each in self.live.notifications_for(payload, "turn")]

    def logs(self, entry: ThreadEntry) -> list[str]:
        self.ordinal += 1
        line = ThreadLogLine("t", self.ordinal, "turn", 1000, entry)
        return [_short(each) for each in self.live.complete(line, self.builder.notifications_for(line))]


def _short(each: PendingNotification) -> str:
    item = each.params.get("item")
    if item is not None:
        return f"{each.method} {item.id} {item.text}"
    return f"{each.method} {each.params['itemId']} {each.params['delta']}" if "delta" in each.params else each.method


def test_deltas_belong_to_the_item_that_the_entry_completes() -> None:
    client = _Client()
    assert client.says("I lo", 0) == ["item/started t.live.1 ", "item/agentMessage/delta t.live.1 I lo"]
    assert client.says("I look", 0) == ["item/agentMessage/delta t.live.1 ok"]  # a whole one repeats what is known
    assert client.logs(AgentMessageEntry("I look.")) == ["item/completed t.live.1 I look."]
    assert client.says(".", 6) == []  # later than its entry
    assert client.says("\n\nDo", 7) == ["item/started t.live.2 ", "item/agentMessage/delta t.live.2 Do"]
    assert client.logs(AgentMessageEntry("Done")) == ["item/completed t.live.2 Done"]
    assert client.says("ne", 11) == []


def test_without_live_text_a_message_is_one_item_of_the_log() -> None:
    client = _Client()
    assert client.logs(AgentMessageEntry("Done")) == ["item/started t.2 Done", "item/completed t.2 Done"]


def test_text_that_no_entry_completes_ends_with_its_turn_and_another_turn_begins_anew() -> None:
    client = _Client()
    client.says("I thi", 0)
    ended = client.logs(TurnEndedEntry("turn", "interrupted"))
    assert ended == ["item/completed t.live.1 I thi", "turn/completed"]
    assert client.says("New", 0, "m2") == ["item/started t.live.2 ", "item/agentMessage/delta t.live.2 New"]
